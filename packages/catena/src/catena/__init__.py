"""Long-document retrieval: from real files to ranked, cited passages.

`__init__.pyi` lists the public names, for editors and type checkers as well as for this module, which loads each
when it is first used: `import catena` loads no numpy, no SDK and no framework.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
