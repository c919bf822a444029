"""From the name in a spec to a network that private training can take."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedveil.core.checks import FieldError
from fedveil.core.errors import FedveilError
from fedveil.core.suggestions import did_you_mean
from fedveil.core.torch_warnings import without_torch_warnings
from fedveil.models import networks
from fedveil.models.features import FixedFeatures
from fedveil.models.scattering import scattering
from fedveil.models.unit_rows import linear

Factory = Callable[..., nn.Module]

MODELS: dict[str, Factory] = {
    "mlp": networks.mlp,
    "cnn": networks.cnn,
    "fed-cdp-cnn": networks.fed_cdp_cnn,
    "leakage-cnn": networks.leakage_cnn,
    "prifedsync-mnist": networks.prifedsync_mnist,
    "prifedsync-cifar": networks.prifedsync_cifar,
    "geyer-mlp": networks.geyer_mlp,
    "scattering": scattering,
    "linear": linear,
}


def build(
    name: str,
    input_shape: Sequence[int],
    classes: int,
    options: Mapping[str, Any] | None = None,
    *,
    seed: int,
    tokens: bool = False,
) -> nn.Module:
    """The network called `name` (or `package.module:factory`), its initial weights drawn from `seed`.

    `tokens`: records are whole numbers, which an embedding looks up. The caller's random state is left as it was.
    """
    factory = find(name)
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in (options or {}).items()}
    try:
        inspect.signature(factory).bind(tuple(input_shape), classes, **options)
    except (TypeError, ValueError) as error:
        if not options:
            raise FedveilError(f"model: {name} must take (input_shape, classes) ({error})") from None
        raise FedveilError(f"model.options: {name} takes no such options ({error})") from None
    with torch.random.fork_rng(devices=[]), without_torch_warnings():
        torch.manual_seed(seed)
        try:
            model = factory(tuple(input_shape), classes, **options)
        except FieldError as error:
            raise FedveilError(f"model.options.{error.field}: {error.problem}") from None
        except FedveilError:
            raise
        except Exception as error:  # a user's factory can fail in any way
            raise FedveilError(f"model: {name} could not be built: {_cause(error)}") from error
        check(model, input_shape, classes, name, tokens=tokens)  # the first call of a lazy layer draws its weights
    return model


def fixed_part(model: nn.Module) -> tuple[FixedFeatures, nn.Sequential] | None:
    """The first part of a model if nothing in it is trained, and the rest, whose parameters keep their names."""
    if type(model) is not nn.Sequential or not len(model) or not isinstance(model[0], FixedFeatures):
        return None
    (_, first), *rest = model._modules.items()  # a module that is used twice counts twice, unlike in named_children
    assert isinstance(first, FixedFeatures)
    if any(True for _ in first.parameters()):
        return None
    return first, nn.Sequential(OrderedDict(rest))


def find(name: str) -> Factory:
    """The factory of that name; `package.module:factory` is imported, also from the current directory."""
    if name in MODELS:
        return MODELS[name]
    module_name, colon, attribute = name.partition(":")
    if not colon:
        near = did_you_mean(name, MODELS) or f"; there are {', '.join(MODELS)}, or give 'package.module:factory'"
        raise FedveilError(f"model.name: there is no model {name!r}{near}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        factory = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # a user's module can fail in any way
        raise FedveilError(f"model.name: {name!r} can't be imported: {_cause(error)}") from error
    if not callable(factory):
        raise FedveilError(f"model.name: {name!r} is not a function or class that makes a model")
    return factory  # type: ignore[no-any-return]


def check(model: object, input_shape: Sequence[int], classes: int, name: str, *, tokens: bool = False) -> None:
    """Refuse networks whose per-example gradients have no meaning or that do not give logits."""
    if not isinstance(model, nn.Module):
        raise FedveilError(f"model: {name} made a {type(model).__name__}, not a torch.nn.Module")
    for path, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise FedveilError(
                f"model: {name} has {type(module).__name__} at '{path}', which mixes the examples of a batch, so no"
                " example has a gradient of its own; use GroupNorm or LayerNorm"
            )
    for path, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype not in (torch.float32, torch.float64):
            raise FedveilError(
                f"model: {name} has parameters of {str(parameter.dtype).removeprefix('torch.')} at '{path}'; sums of"
                " clipped gradients would be rounded by more than the noise accounts for; use float32"
            )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise FedveilError(f"model: {name} has no trainable parameter")
    _check_outputs(model, _probes(3, input_shape, tokens), classes, name)
    _check_stateless(model, _probes(2, input_shape, tokens), name)
    parts = fixed_part(model)
    if parts is not None:
        _check_features(parts[0], _probes(3, input_shape, tokens), name)


def _probes(count: int, input_shape: Sequence[int], tokens: bool) -> Tensor:
    """Records that are nobody's: numbers between 0 and 1, or tokens that every vocabulary has."""
    generator = torch.Generator().manual_seed(0)
    if tokens:
        return torch.randint(0, 2, (count, *input_shape), generator=generator)
    return torch.rand(count, *input_shape, generator=generator)


def check_tokens(model: nn.Module, records: Tensor, name: str) -> None:
    """Refuse tokens that the network does not know: tried on the record with the largest one."""
    if not len(records):
        return
    largest = records.flatten(1).amax(dim=1)
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), without_torch_warnings():
            model(records[largest.argmax()].unsqueeze(0))
    except Exception as error:  # a user's module can fail in any way
        raise FedveilError(
            f"model: {name} does not take all tokens, which go up to {int(largest.max())}"
            f" (an embedding of n words knows 0 to n - 1): {_cause(error)}"
        ) from error
    finally:
        model.train(training)


def _check_features(features: FixedFeatures, probe: Tensor, name: str) -> None:
    """Fixed features are computed for many records at once, so one must not change another beyond rounding."""
    with torch.no_grad():
        together = features(probe)
        alone = torch.cat([features(probe[index : index + 1]) for index in range(len(probe))])
    if not torch.allclose(together, alone, rtol=1e-5, atol=1e-6):
        raise FedveilError(f"model: {name} has fixed features that mix the records: one changes with the others")


def _check_outputs(model: nn.Module, probe: Tensor, classes: int, name: str) -> None:
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            together = model(probe)
            alone = [model(probe[index : index + 1]) for index in range(len(probe))]
    except Exception as error:  # a user's module can fail in any way
        whole = "" if probe.is_floating_point() else " of whole numbers (tokens; plain numbers are float32)"
        raise FedveilError(
            f"model: {name} does not take records{whole} of shape {list(probe.shape[1:])}: {_cause(error)}"
        ) from error
    finally:
        model.train(training)
    if not isinstance(together, Tensor):
        raise FedveilError(f"model: {name} gives a {type(together).__name__}, not a tensor of logits")
    if tuple(together.shape) != (3, classes):
        raise FedveilError(
            f"model: {name} gives outputs of shape {list(together.shape)} for 3 records, not [3, {classes}]"
        )
    if not torch.isfinite(together).all():
        raise FedveilError(f"model: {name} gives outputs that are not finite")
    if not torch.allclose(together, torch.cat(alone), rtol=1e-3, atol=1e-4):
        raise FedveilError(f"model: {name} mixes the examples of a batch: an output changes with the other examples")


def _check_stateless(model: nn.Module, probes: Tensor, name: str) -> None:
    """A network that remembers records would show them in the gradients of others, or in what is published."""
    first, other = probes[:1], probes[1:]
    other = 3 * other - 1 if probes.is_floating_point() else 1 - other
    training, before = model.training, _state(model)
    outputs: list[object] = []
    try:
        for record in (first, other, first):
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(0)
                outputs.append(model.train()(record))
                model.eval()(record)
    except Exception as error:  # a user's module can fail in any way
        raise FedveilError(f"model: {name} fails on one record in training: {_cause(error)}") from error
    finally:
        model.train(training)
    changed = [path for path, value in _state(model).items() if path not in before or not value.equal(before[path])]
    if changed:
        raise FedveilError(
            f"model: {name} changes '{changed[0]}' when it is called, so it would remember records; a network must have"
            " no state of its own"
        )
    earlier, _, again = outputs
    if not isinstance(again, Tensor) or not isinstance(earlier, Tensor):
        raise FedveilError(f"model: {name} gives a {type(again).__name__} in training, not a tensor of logits")
    if not again.equal(earlier):
        raise FedveilError(
            f"model: {name} answers one record differently after it has seen another; a network must have no state of"
            " its own"
        )


def _state(model: nn.Module) -> dict[str, Tensor]:
    """A copy of all its parameters and buffers."""
    return {path: value.clone() for path, value in model.state_dict().items() if isinstance(value, Tensor)}


def _cause(error: Exception) -> str:
    """What went wrong in somebody's code, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
