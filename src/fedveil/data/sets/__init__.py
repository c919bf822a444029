"""The data sets that have a name, one line each, in the order in which they are listed."""

# ruff: noqa: I001

from fedveil.data.sets.mnist import MNIST as MNIST
from fedveil.data.sets.cifar10 import CIFAR10 as CIFAR10
from fedveil.data.sets.lfw import LFW as LFW
from fedveil.data.sets.adult import ADULT as ADULT
from fedveil.data.sets.cancer import CANCER as CANCER
from fedveil.data.sets.heart import HEART as HEART
from fedveil.data.sets.brca import BRCA as BRCA
