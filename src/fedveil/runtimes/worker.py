"""A worker process: reads a job, then calls, from standard input; writes replies to standard output.

Its one argument is the file descriptor of the job's large arrays.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from typing import Any, BinaryIO

import torch

from fedveil.core.errors import FedveilError
from fedveil.engine.batched import Engine
from fedveil.runtimes.packing import pack_uploads
from fedveil.runtimes.shared_arrays import load_shared


def serve(requests: BinaryIO, replies: BinaryIO, records: int) -> None:
    """Answer until the parent is gone, which is the end of its pipe."""
    torch.set_num_threads(1)
    engine: Engine | None = None
    while True:
        reply: Any
        try:
            if engine is None:
                engine = Engine(load_shared(requests, records))
                os.close(records)  # the mapping stays
                gc.freeze()  # modules and the job live as long as the process: nobody need look at them again
                reply = engine.plan
            else:
                name, *arguments = pickle.load(requests)
                reply = getattr(engine, name)(*arguments)
                reply = pack_uploads(reply) if name == "train" else reply
        except EOFError:
            return
        except FedveilError as error:
            reply = error
        except Exception as error:  # whatever goes wrong here is for the parent to raise
            reply = RuntimeError(f"{type(error).__name__}: {error}")
        pickle.dump(reply, replies, protocol=pickle.HIGHEST_PROTOCOL)
        replies.flush()


def main() -> None:
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not end up among the replies
    try:
        serve(sys.stdin.buffer, replies, int(sys.argv[1]))
    except BrokenPipeError:  # the parent was killed in the midst of a call; nobody is left to answer
        os._exit(1)


if __name__ == "__main__":
    main()
