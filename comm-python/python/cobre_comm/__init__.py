"""Collective communication between the ranks of a job, without MPI."""

from cobre_comm._native import Communicator, connect

__all__ = ["Communicator", "connect"]
