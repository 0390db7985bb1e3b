from .files import Engine as Engine
from .files import file_bytes as file_bytes
from .files import parse as parse
from .files import parse_bytes as parse_bytes
from .files import path_given as path_given
from .limits import Limits as Limits
from .sniff import SUPPORTED_SUFFIXES as SUPPORTED_SUFFIXES
