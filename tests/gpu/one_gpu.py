# SPDX-License-Identifier: Apache-2.0
"""What NCCL needs if the ranks of a job share one GPU, for tests only: each rank counts as a host of its own."""

SHARED = {"NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2",
          "NCCL_IB_DISABLE": "1"}


def variables_of(rank):
    """The variables of the environment of a rank."""
    return {**SHARED, "NCCL_HOSTID": f"rank-{rank}"}
