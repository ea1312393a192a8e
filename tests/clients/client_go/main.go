// A Go client, as operators and test suites use one: typed clients that send protobuf, informers, dynamic and metadata
// clients, exec by SPDY and by WebSocket, leader election. Prints a line per step and exits 1 at the first that fails.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/remotecommand"
)

func must(err error, what string) {
	if err != nil {
		fmt.Println("FAIL", what, err)
		os.Exit(1)
	}
	fmt.Println("ok  ", what)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 240*time.Second)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err, "config")
	pb := *config
	pb.ContentType = "application/vnd.kubernetes.protobuf"
	pb.QPS, pb.Burst = 1000, 1000
	cs, err := kubernetes.NewForConfig(&pb)
	must(err, "clientset")
	_, resources, err := cs.Discovery().ServerGroupsAndResources()
	must(err, fmt.Sprint("discovery ", len(resources)))
	doc, err := cs.Discovery().OpenAPISchema()
	must(err, "openapi v2 protobuf")
	fmt.Println("      definitions", len(doc.Definitions.AdditionalProperties), "paths", len(doc.Paths.Path))
	ns, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"}}, metav1.CreateOptions{})
	must(err, "create namespace by protobuf "+ns.Name)
	n := ns.Name
	for i := 0; i < 3000; i++ {
		if _, err = cs.CoreV1().ServiceAccounts(n).Get(ctx, "default", metav1.GetOptions{}); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	must(err, "default service account")
	cm, err := cs.CoreV1().ConfigMaps(n).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 1, 2}}}, metav1.CreateOptions{})
	must(err, "create configmap")
	if cm.Data["k"] != "v" || len(cm.BinaryData["b"]) != 3 {
		fmt.Println("FAIL data", cm)
		os.Exit(1)
	}
	cm.Data["k"] = "w"
	cm2, err := cs.CoreV1().ConfigMaps(n).Update(ctx, cm, metav1.UpdateOptions{})
	must(err, "update configmap")
	_, err = cs.CoreV1().ConfigMaps(n).Update(ctx, cm, metav1.UpdateOptions{})
	if err == nil {
		fmt.Println("FAIL no conflict")
		os.Exit(1)
	}
	fmt.Println("ok   conflict:", err)
	_, err = cs.CoreV1().ConfigMaps(n).Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"data":{"z":"1"}}`), metav1.PatchOptions{})
	must(err, "patch "+cm2.ResourceVersion)
	pod, err := cs.CoreV1().Pods(n).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
	must(err, "create pod "+string(pod.Status.Phase))
	pod.Status.Phase = corev1.PodRunning
	_, err = cs.CoreV1().Pods(n).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	must(err, "update pod status")
	job, err := cs.BatchV1().Jobs(n).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Suspend: ptr(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}, metav1.CreateOptions{})
	must(err, "create job "+fmt.Sprint(*job.Spec.Parallelism))
	tr, err := cs.CoreV1().ServiceAccounts(n).CreateToken(ctx, "default", &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: ptr(int64(604800))}}, metav1.CreateOptions{})
	must(err, "token")
	rv, err := cs.AuthenticationV1().TokenReviews().Create(ctx, &authv1.TokenReview{Spec: authv1.TokenReviewSpec{Token: tr.Status.Token}}, metav1.CreateOptions{})
	must(err, "token review "+rv.Status.User.Username)
	// informers (WatchList)
	f := informers.NewSharedInformerFactoryWithOptions(cs, 0, informers.WithNamespace(n))
	seen := make(chan string, 100)
	f.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { seen <- o.(*corev1.ConfigMap).Name }, DeleteFunc: func(o any) { seen <- "-" + o.(*corev1.ConfigMap).Name }})
	f.Start(ctx.Done())
	for k, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			fmt.Println("FAIL sync", k)
			os.Exit(1)
		}
	}
	must(nil, "informer sync")
	_, err = cs.CoreV1().ConfigMaps(n).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	must(err, "create late")
	deadline := time.After(60 * time.Second)
	for got := ""; got != "late"; {
		select {
		case got = <-seen:
		case <-deadline:
			fmt.Println("FAIL no event")
			os.Exit(1)
		}
	}
	must(nil, "informer saw late")
	must(cs.CoreV1().ConfigMaps(n).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: ptr(metav1.DeletePropagationForeground)}, metav1.ListOptions{LabelSelector: "none=x"}), "deletecollection")
	must(cs.CoreV1().ConfigMaps(n).Delete(ctx, "late", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}), "delete")
	// dynamic, metadata
	dyn, err := dynamic.NewForConfig(config)
	must(err, "dynamic")
	gvr := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "resourceflavors"}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": map[string]any{"name": n}}}
	_, err = dyn.Resource(gvr).Create(ctx, u, metav1.CreateOptions{})
	must(err, "dynamic create")
	_, err = dyn.Resource(gvr).Apply(ctx, n, u, metav1.ApplyOptions{FieldManager: "go", Force: true})
	must(err, "dynamic apply")
	md, err := metadata.NewForConfig(config)
	must(err, "metadata client")
	ml, err := md.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(n).List(ctx, metav1.ListOptions{})
	must(err, fmt.Sprint("metadata list ", len(ml.Items)))
	w, err := md.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(n).Watch(ctx, metav1.ListOptions{})
	must(err, "metadata watch")
	ev := <-w.ResultChan()
	fmt.Println("      ", ev.Type)
	// exec
	req := cs.CoreV1().RESTClient().Post().Resource("pods").Name("p").Namespace(n).SubResource("exec").VersionedParams(&corev1.PodExecOptions{Container: "c", Command: []string{"sh", "-c", "cat; echo err >&2; exit 3"}, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	for _, kind := range []string{"spdy", "websocket"} {
		var ex remotecommand.Executor
		if kind == "spdy" {
			ex, err = remotecommand.NewSPDYExecutor(config, "POST", req.URL())
		} else {
			ex, err = remotecommand.NewWebSocketExecutor(config, "GET", req.URL().String())
		}
		must(err, kind)
		var out, er bytes.Buffer
		err = ex.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: bytes.NewBufferString("hello"), Stdout: &out, Stderr: &er})
		fmt.Println("      ", kind, out.String(), er.String(), err)
		if out.String() != "hello" || err == nil {
			os.Exit(1)
		}
	}
	// leader election
	lec, cl := context.WithTimeout(ctx, 120*time.Second)
	leaderelection.RunOrDie(lec, leaderelection.LeaderElectionConfig{Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: "l", Namespace: n}, Client: cs.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "me"}}, LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: true, Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { fmt.Println("ok   leading"); time.Sleep(1200 * time.Millisecond); cl() }, OnStoppedLeading: func() { fmt.Println("ok   stopped leading") }}})
	must(cs.CoreV1().Pods(n).Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0))}), "delete pod at once")
	must(cs.CoreV1().Namespaces().Delete(ctx, n, metav1.DeleteOptions{}), "delete namespace")
	for i := 0; i < 600; i++ {
		if _, err = cs.CoreV1().Namespaces().Get(ctx, n, metav1.GetOptions{}); err != nil {
			fmt.Println("ok   namespace gone:", err)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	must(fmt.Errorf("still there"), "namespace gone")
}

func ptr[T any](v T) *T { return &v }
