"""Where contracts come from: those shipped in `shared/contract_files/`, and those of the deployment's own folder."""

from collections.abc import Collection, Iterator
from pathlib import Path

from adapter.core.contract import ContractDefinition, Registry
from shared.config import ConfigurationFault
from shared.model import check
from shared.names import hint
from shared.priorities import SHIPPED
from shared.problems import Problem
from shared.strict_json import decode_object


def load_registry(folder: Path, rate_classes: Collection[str]) -> Registry:
    """Every contract, or a `ConfigurationFault` that names the file and the fault."""
    definitions = [*_read(SHIPPED), *_read(folder)]
    for definition in definitions:
        name = definition.rate_class
        if name is not None and name not in rate_classes:
            known = f"there is no table [rates.{name}].{hint(name, rate_classes)}"
            raise ConfigurationFault(f"the contract {definition.type} has the rate class {name!r}, but {known}")
    try:
        return Registry(definitions)
    except ValueError as error:  # a type defined twice, or a payload schema that is none
        raise ConfigurationFault(f"the contracts in {folder} do not fit together: {error}") from error


def _read(folder: Path) -> Iterator[ContractDefinition]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield check(ContractDefinition, decode_object(path.read_bytes()))
        except (OSError, Problem) as error:
            raise ConfigurationFault(f"the contract file {path} cannot be used: {error}") from error
