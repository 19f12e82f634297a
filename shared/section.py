"""What every table of `multiclaw.toml` is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file: unknown keys are an error, and so are TOML's `inf` and `nan`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
