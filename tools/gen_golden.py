#!/usr/bin/python3
"""Golden values for tests/test_gnn.c: the network of metatune_gnn.h written a
second time, in PyTorch with dense adjacency, float64 and autograd.

    python3 tools/gen_golden.py > tests/golden_gnn.h

Needs PyTorch (Debian: python3-torch). Parameters and graphs come from the
integer formula val(), which the test repeats, so that only results are stored.
"""
import torch

torch.set_default_dtype(torch.float64)

GRAPHS = 3
SUM_SCALE = 0.0625
MEAN, MAX, SUM = 1, 2, 4

# conv (0 split, 1 gcn), layers, no_residual, readout, F, G, D_dev, hidden, mlp
CASES = [
    (0, 2, 0, MEAN | MAX, 28, 24, 16, 24, (40, 24)),
    (1, 2, 0, MEAN | MAX, 28, 24, 16, 24, (40, 24)),
    (0, 2, 0, MEAN | MAX, 28, 24, 16, 16, (32, 16)),
    (0, 3, 1, SUM, 5, 3, 2, 7, (9,)),
    (1, 3, 1, MEAN | SUM, 5, 3, 2, 7, (9, 6, 5)),
    (0, 4, 0, MEAN | MAX | SUM, 11, 24, 1, 33, (17, 13, 6, 3)),
    (1, 1, 0, MAX, 6, 1, 16, 10, (8, 12)),
]


def val(i, seed):
    return ((i * i * 31 + i * 37 + seed * 101) % 97 - 48) / 97.0


def vals(n, seed, scale=1.0):
    return torch.tensor([val(i, seed) * scale for i in range(n)])


class Graph:
    def __init__(self, g, f, n_global, n_device):
        n = 5 + 4 * g
        present = [v == 0 or (v * 5 + g) % 4 != 0 for v in range(n)]
        a = torch.zeros(n, n)
        for u in range(n):
            for v in range(u):
                if (u * 7 + v * 3 + g) % 5 < 2:
                    a[u, v] = a[v, u] = 1
        keep = torch.tensor([v for v in range(n) if present[v]])
        self.a = a[keep][:, keep]
        self.x = vals(n * f, 10 + g).reshape(n, f)[keep]
        self.rows = torch.cat([vals(24, 20 + g)[:n_global],
                               vals(16, 30 + g)[:n_device]])


def windows(case):
    conv, layers, _, readout, f, g, d, h, mlp = case
    out = []
    k = f
    for i in range(layers):
        names = ["self", "nbr"] if conv == 0 else ["weight"]
        out += [("conv%d.%s" % (i, name), k, h) for name in names]
        out.append(("conv%d.bias" % i, 1, h))
        k = h
    k = bin(readout).count("1") * h + g + d
    for i, w in enumerate(mlp):
        out += [("mlp%d.weight" % i, k, w), ("mlp%d.bias" % i, 1, w)]
        k = w
    out.append(("out", 1, k + 1))
    return out


def forward(case, p, graph):
    conv, layers, no_residual, readout, _, _, _, _, mlp = case
    a, h = graph.a, graph.x
    deg = a.sum(1)
    if conv == 0:
        m = a / torch.clamp(deg, min=1.0)[:, None]
    else:
        s = (deg + 1) ** -0.5
        m = s[:, None] * (a + torch.eye(len(a))) * s[None, :]
    for i in range(layers):
        c = "conv%d." % i
        if conv == 0:
            z = h @ p[c + "self"] + (m @ h) @ p[c + "nbr"] + p[c + "bias"]
        else:
            z = (m @ h) @ p[c + "weight"] + p[c + "bias"]
        r = torch.relu(z)
        h = r + h if i > 0 and not no_residual else r
    pools = []
    if readout & MEAN:
        pools.append(h.mean(0))
    if readout & MAX:
        pools.append(h.max(0).values)
    if readout & SUM:
        pools.append(h.sum(0) * SUM_SCALE)
    u = torch.cat(pools + [graph.rows])
    for i in range(len(mlp)):
        u = torch.relu(u @ p["mlp%d.weight" % i] + p["mlp%d.bias" % i][0])
    phi = torch.cat([u, torch.ones(1)])
    return phi, (phi * p["out"][0]).sum()


def run(case):
    p, at = {}, 0
    for name, rows, cols in windows(case):
        flat = [val(at + i, 1) * (3.0 / rows ** 0.5) for i in range(rows * cols)]
        p[name] = torch.tensor(flat).reshape(rows, cols).requires_grad_()
        at += rows * cols
    dmu = vals(GRAPHS, 40) + 1
    outs = [forward(case, p, Graph(g, *case[4:7])) for g in range(GRAPHS)]
    mu = torch.stack([o[1] for o in outs])
    phi = torch.stack([o[0] for o in outs])
    phi_dot = (phi * vals(phi.numel(), 41).reshape(phi.shape)).sum()
    (mu * dmu).sum().backward()
    grads = []
    for name, rows, cols in windows(case):
        g = p[name].grad.reshape(-1)
        grads.append((name, g.sum().item(),
                      (g * vals(len(g), 42)).sum().item()))
    return mu.tolist(), phi_dot.item(), grads, at


def main():
    cap = max(len(windows(c)) for c in CASES)
    print("/* golden_gnn.h - written by tools/gen_golden.py; do not edit.")
    print("   The network in PyTorch %s, float64, gradients by autograd. */"
          % torch.__version__.split("+")[0])
    print("#define GOLDEN_GRAPHS %d" % GRAPHS)
    print("#define GOLDEN_CASES %d" % len(CASES))
    print("#define GOLDEN_WINDOWS %d" % cap)
    print("""
struct golden_window {
    const char *name;
    double sum, dot; /* of the gradient: its sum, its product with val(.,42) */
};

struct golden_case {
    int conv, n_layers, no_residual, readout, f, g, d, hidden, n_mlp, mlp[4];
    int params;
    double mu[GOLDEN_GRAPHS];
    double phi_dot; /* all of phi with val(.,41) */
    int n_windows;
    struct golden_window window[GOLDEN_WINDOWS];
};

static const struct golden_case golden[GOLDEN_CASES] = {""")
    for case in CASES:
        mu, phi_dot, grads, params = run(case)
        mlp = list(case[8]) + [0] * (4 - len(case[8]))
        print("    { %s, %d, { %s }," % (", ".join(map(str, case[:8])),
                                        len(case[8]),
                                        ", ".join(map(str, mlp))))
        print("      %d,\n      { %s }," % (params, ",\n        ".join(
            "%.17g" % m for m in mu)))
        print("      %.17g,\n      %d," % (phi_dot, len(grads)))
        print("      {")
        for name, total, dot in grads:
            print('        { "%s",\n          %.17g, %.17g },'
                  % (name, total, dot))
        print("      } },")
    print("};")


if __name__ == "__main__":
    main()
