"""Muon (Jordan et al. 2024): momentum whose matrix is made orthogonal before it is applied."""

import torch


def orthogonal(g):  # [N, rows, cols]
    tall = g.shape[1] > g.shape[2]
    x = g.transpose(1, 2) if tall else g
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """params: (matrix, number of equal matrices stacked in its rows)"""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.1):
        groups = [dict(params=[p], n_parts=n) for p, n in params]
        super().__init__(groups, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            p = group["params"][0]
            state = self.state[p]
            if "mean" not in state:
                state["mean"] = torch.zeros_like(p)
            state["mean"].lerp_(p.grad, 1 - group["momentum"])
            g = p.grad.lerp(state["mean"], group["momentum"])
            u = orthogonal(g.view(group["n_parts"], -1, p.shape[1]))
            scale = max(1.0, u.shape[1] / u.shape[2]) ** 0.5
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(u.reshape(p.shape), alpha=-group["lr"] * scale)
