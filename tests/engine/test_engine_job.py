"""A job: what is trained, on which records."""

from __future__ import annotations

import pickle
from dataclasses import replace

import torch
from torch import nn

from fedveil.core.parameters import Layout
from fedveil.core.streams import Streams
from fedveil.data.dataset import Examples
from fedveil.engine.batched import Engine
from fedveil.engine.job import Job
from fedveil.engine.sites import Sites
from fedveil.zoo import FED_AVG


def make_job(model: nn.Module) -> Job:
    examples = Examples(torch.rand(4, 3), torch.tensor([0, 1, 0, 1]))
    return Job(FED_AVG, model, Sites(examples, torch.arange(4), (2, 2)), examples, Streams.from_seed(1))


def test_its_layout_is_that_of_its_model_and_worked_out_once() -> None:
    job = make_job(nn.Linear(3, 2))
    assert job.layout == Layout.of(job.model)
    assert job.layout is job.layout
    assert replace(job, model=nn.Linear(3, 2, bias=False)).layout.size == 6


def test_it_can_be_sent_to_another_process() -> None:
    job = make_job(nn.Linear(3, 2))
    arrived = pickle.loads(pickle.dumps(job))
    assert arrived.layout == job.layout
    assert torch.equal(arrived.layout.vector(arrived.model), job.layout.vector(job.model))
    assert arrived.streams.key == job.streams.key


def test_an_engine_does_the_work_of_its_job() -> None:
    job = make_job(nn.Linear(3, 2))
    engine = Engine(job)
    assert engine.job is job
    assert engine.gradients.layout == job.layout
