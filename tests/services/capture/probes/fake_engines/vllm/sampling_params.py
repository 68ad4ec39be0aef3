from enum import Enum


class RequestOutputKind(Enum):
    DELTA = 1
