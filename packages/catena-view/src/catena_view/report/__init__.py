"""Write one page that shows a library and a question.

`__init__.pyi` lists the names that others may use; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
