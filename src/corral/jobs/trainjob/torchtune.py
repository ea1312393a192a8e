"""TorchTune inside TrainJobs: which recipe and configuration a fine-tuning runs, and what cannot be combined.

A TrainJob whose command is `tune run` only names what it wants to change. The model comes from the runtime's name
(`torchtune-llama3.2-1b`), the recipe from the number of nodes and devices and from the adapters its arguments ask for.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.core import validation as v
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.core.whole_numbers import whole_number

ENTRYPOINT = ["tune", "run"]
RUNTIME_SETTINGS = ("output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file")
"""Settings that belong to the runtime: copied from its command, forbidden in the arguments of a TrainJob."""
LLAMA_70B = "llama3_3/70B"
SMALL_LLAMAS = ("llama3_2/1B", "llama3_2/3B")
QWEN = "qwen2_5/1.5B"
MODELS = (*SMALL_LLAMAS, LLAMA_70B, QWEN)


def is_torchtune(train_job: Obj) -> bool:
    return (spec_of(train_job).get("trainer") or {}).get("command") == ENTRYPOINT


def model_of(train_job: Obj) -> str:
    """The model in TorchTune's spelling, read from the runtime's name; empty when that is none of its kind."""
    parts = str((spec_of(train_job).get("runtimeRef") or {}).get("name") or "").split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def _is_on(arguments: Sequence[str], setting: str) -> bool:
    pairs = (argument.partition("=") for argument in arguments)
    return any(setting in name and value.strip().lower() == "true" for name, _, value in pairs)


def uses_lora(arguments: Sequence[str]) -> bool:
    return any("model.lora_attn_modules" in argument for argument in arguments)


def uses_qlora(arguments: Sequence[str]) -> bool:
    return not _is_on(arguments, "model.use_dora") and _is_on(arguments, "model.quantize_base")


def recipe_of(train_job: Obj, nodes: int, processes: str, gpus: int) -> tuple[str, str]:
    """Recipe and configuration of a fine-tuning on `nodes` with `processes` each (a number or `auto`)."""
    arguments = (spec_of(train_job).get("trainer") or {}).get("args") or []
    recipe, suffix = "full_finetune_distributed", "_full"
    qlora, lora = uses_qlora(arguments), uses_lora(arguments)
    if nodes == 1 and (processes == "1" or gpus == 1):
        recipe, suffix = "full_finetune_single_device", "_full_single_device"
        if qlora or lora:
            recipe = "lora_finetune_single_device"
            suffix = "_qlora_single_device" if qlora else "_lora_single_device"
    elif nodes == 1 and (qlora or lora):
        recipe, suffix = "lora_finetune_distributed", "_qlora" if qlora else "_lora"
    elif nodes > 1:
        suffix = "_full_multinode"
    return recipe, f"{model_of(train_job)}{suffix}"


def command_of(
    train_job: Obj, command: Sequence[str], nodes: int, processes: str, gpus: int, endpoint: str
) -> list[str]:
    """The whole command of a fine-tuning: `command` is the runtime's, whose settings are kept."""
    words = list(ENTRYPOINT)
    asked = whole_number(processes)
    many = (gpus if asked is None else asked) > 1
    if nodes > 1 or many:
        words.append(f"--rdzv_endpoint={endpoint}")
    recipe, config = recipe_of(train_job, nodes, processes, gpus)
    kept = [word for word in command if word.partition("=")[0] in RUNTIME_SETTINGS]
    return [*words, recipe, "--config", config, *kept]


def validate_torchtune(train_job: Obj, gpus: int) -> list[Cause]:
    """What the trainer's webhook refuses about a fine-tuning; `gpus` are those of one node."""
    spec = spec_of(train_job)
    trainer, name = spec.get("trainer") or {}, (spec.get("runtimeRef") or {}).get("name")
    model, arguments = model_of(train_job), trainer.get("args") or []
    nodes = int(1 if trainer.get("numNodes") is None else trainer["numNodes"])
    given = trainer.get("numProcPerNode")
    processes = "auto" if given is None else str(given)
    causes = []
    if model not in MODELS:
        text = f"must have a supported pretrained model, invalid model configured: {model}"
        causes.append(v.invalid("spec.runtimeRef.name", name, text))
    if nodes > 1 and model != LLAMA_70B:
        causes.append(v.invalid("spec.trainer.numNodes", nodes, f"must be 1 for {model} model"))
    config = recipe_of(train_job, nodes, processes, gpus)[1]
    if "_qlora" in config:
        causes += _check_qlora(trainer, name, model, processes, "_single_device" in config)
    if nodes > 1 and (uses_lora(arguments) or uses_qlora(arguments)):
        text = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
        causes.append(v.invalid("spec.trainer.numNodes", nodes, text))
    for position, argument in enumerate(arguments):
        key = argument.partition("=")[0]
        if key in RUNTIME_SETTINGS:
            text = f'must not set immutable config "{key}" in trainer args; it is managed by the runtime'
            causes.append(v.invalid(f"spec.trainer.args[{position}]", argument, text))
    return causes


def _check_qlora(trainer: Obj, name: object, model: str, processes: str, single: bool) -> list[Cause]:
    if model == QWEN:
        return [v.invalid("spec.runtimeRef.name", name, f"QLoRA is not supported for {model} model")]
    if single or model not in SMALL_LLAMAS:
        return []
    per_process = f"must be auto or 1 for {model} model when using QLoRA"
    per_node = f"must have gpu resource with value 1 for {model} model when using QLoRA"
    return [
        v.invalid("spec.trainer.numProcPerNode", processes, per_process),
        v.invalid("spec.trainer.resourcesPerNode", trainer.get("resourcesPerNode"), per_node),
    ]
