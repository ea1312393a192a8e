{{/* What is installed has fixed names: the controllers look for their Lease, Service and Secrets there. */}}
{{- define "corral.namespace" -}}
{{- $wanted := ternary "fleet-system" "kueue-system" (has .Values.role (list "hub" "member")) -}}
{{- if ne .Release.Namespace $wanted -}}
{{- fail (printf "a %s lives in the namespace %s: install it with --namespace %s" .Values.role $wanted $wanted) -}}
{{- end -}}
{{- $wanted -}}
{{- end }}

{{- define "corral.name" -}}
{{- if has .Values.role (list "hub" "member") -}}corral-{{ .Values.role }}{{- else -}}corral{{- end -}}
{{- end }}

{{- define "corral.webhooks" -}}
{{- if and .Values.webhooks.enabled (ne .Values.role "member") -}}true{{- end -}}
{{- end }}

{{/* The roles of the process, as `corral controllers run --roles` names them. */}}
{{- define "corral.roles" -}}
{{- $own := get (dict "worker" "queueing" "manager" "queueing,dispatch" "hub" "hub" "member" "member") .Values.role -}}
{{- $own -}}{{- if include "corral.webhooks" . -}},webhooks{{- end -}}
{{- end }}

{{- define "corral.selector" -}}
app.kubernetes.io/name: {{ include "corral.name" . }}
app.kubernetes.io/component: controllers
{{- end }}

{{- define "corral.metadata" -}}
name: {{ include "corral.name" . }}
namespace: {{ include "corral.namespace" . }}
labels:
{{- include "corral.labels" . | nindent 2 }}
{{- end }}

{{- define "corral.labels" -}}
{{ include "corral.selector" . }}
app.kubernetes.io/part-of: corral
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
