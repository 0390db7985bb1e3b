from .files import Engine as Engine
from .files import file_bytes as file_bytes
from .files import parse as parse
from .files import parse_bytes as parse_bytes
from .files import path_given as path_given
from .protocol import SUPPORTED_SUFFIXES as SUPPORTED_SUFFIXES
from .protocol import Limits as Limits
