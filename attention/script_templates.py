"""The parts of a script, as a reader gets them; what begins with $ is filled in by `script`.

The operations are the library's own, one after the other: `torch.addmm` and a softmax by hand, where `F.linear` and
`torch.softmax` round otherwise in some dtypes.
"""

from string import Template
from typing import Final

OPENING: Final = Template('''\
"""$title"""

$imports

torch.set_num_threads(1)  # as the dashboard: with more, sums are added up in another order
$names, dtype = $values, torch.$dtype  # $called
''')

SEEDS: Final = Template("""\
seeds = {  # every tensor has a generator of its own
$seeds
}


def draw(name, *shape, scale=1.0):
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seeds[name]))
    return (noise * scale).to(dtype)


""")

INPUTS: Final = Template("""\
file = numpy.load("$file")  # trained weights and the tokens, which were taken home with this script


def take(name):
    return torch.from_numpy(file[name]).to(dtype)


""")

SPLIT: Final = """\
def split(x):  # into heads: (1, T, E) to (1, H, T, D)
    return x.view(1, -1, H, E // H).transpose(1, 2)


"""

ATTENTION: Final = Template("""\
def project(x, name):  # x Wᵀ + b
    $weight_and_bias
    return torch.addmm(bias, x[0], weight.mT)[None]


${split}\
$tokens
$q_k_v
$equation
merged = context.transpose(1, 2).reshape(1, -1, E)  # heads side by side
output = project(merged, "o")
$kernel
""")

DRAWN: Final = """\
weight = draw(f"w_{name}", E, E, scale=1 / math.sqrt(E))
    bias = draw(f"b_{name}", E, scale=1 / math.sqrt(E))"""
TAKEN_TOKENS: Final = 'tokens = take("tokens")'
TAKEN: Final = 'weight, bias = take(f"w_{name}"), take(f"b_{name}")'

SELF: Final = 'q, k, v = (split(project(tokens, name)) for name in "qkv")'

CROSS: Final = """\
queries, keys = tokens[:, -T:], tokens[:, :S]  # who asks, and who is asked
q, k, v = split(project(queries, "q")), split(project(keys, "k")), split(project(keys, "v"))"""

ONE_HEAD: Final = Template("""\
def project(x, name, width):  # x Wᵀ, as one head: (1, T, E) to (1, 1, T, width)
    return (x[0] @ draw(name, width, E, scale=1 / math.sqrt(E)).mT)[None, None]


$tokens
q, k, v = project(tokens, "w_q", D), project(tokens, "w_k", D), project(tokens, "w_v", V)
$equation
output = context[:, 0]
$kernel
""")

TRAINED_HEAD: Final = Template("""\
def project(x, name):  # x Wᵀ + b, as one head: (1, T, E) to (1, 1, T, D)
    return torch.nn.functional.linear(x, take(f"w_{name}"), take(f"b_{name}"))[:, None]


$tokens
q, k, v = (project(tokens, name) for name in "qkv")
$equation
output = context[:, 0]
$kernel
""")

SCORES: Final = """\
scores = q @ k.mT  # (1, H, T, S)
scaled = scores / math.sqrt(q.shape[-1])"""

NO_MASK: Final = "masked = scaled  # every query sees every key"
MASKED: Final = "masked = torch.where(allowed, scaled, -math.inf)"

SOFTMAX: Final = """\
exponentials = torch.exp(masked - masked.amax(dim=-1, keepdim=True))
weights = exponentials / exponentials.sum(dim=-1, keepdim=True)  # softmax over the keys
context = weights @ v"""

SOFTMAX_WITH_EMPTY_ROWS: Final = """\
has_key = allowed.any(dim=-1, keepdim=True)  # a query that sees nothing gets zeros, and not 0 / 0
safe = torch.where(has_key, masked, 0.0)
exponentials = torch.exp(safe - safe.amax(dim=-1, keepdim=True))
weights = exponentials / exponentials.sum(dim=-1, keepdim=True)  # softmax over the keys
weights = torch.where(has_key, weights, 0.0)
context = weights @ v"""

KERNEL: Final = Template("""\
theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v$mask)
apart = (context.double() - theirs.double()).abs().max()""")

BLOCKS: Final = Template("""\
parameters = (
    "$of_attention "
    "$of_block"
).split()
${source}\
def project(x, p, name):  # x Wᵀ + b
    return torch.addmm(p[f"b_{name}"], x[0], p[f"w_{name}"].mT)[None]


${split}\
def norm(x, p, number):
    weight, bias = p[f"norm_{number}_weight"], p[f"norm_{number}_bias"]
${widened}\
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    normed = centred / torch.sqrt(variance + 1e-5)
    return $moved


def feed(x, p):
    hidden = project(x, p, "1")
$activation
    return project(activated, p, "2")


def attend(x, p):
    q, k, v = (split(project(x, p, name)) for name in "qkv")
$equation
    merged = context.transpose(1, 2).reshape(1, -1, E)  # heads side by side
    return weights, project(merged, p, "o")


def pytorch(x, p):  # the same block by PyTorch
    layer = torch.nn.TransformerEncoderLayer(
        E, H, F, dropout=0.0, activation="$called", batch_first=True, norm_first=$norm_first, dtype=dtype
    ).requires_grad_(False)
    packed = [torch.cat([p[f"{kind}_{name}"] for name in "qkv"]) for kind in "wb"]
    rest = [p[name] for name in ("w_o", "b_o", "w_1", "b_1", "w_2", "b_2")]
    norms = [p[name] for name in parameters if name.startswith("norm")]
    layer.load_state_dict(dict(zip(layer.state_dict(), packed + rest + norms)))
    return layer(x, src_mask=$blocked)


$tokens
x = theirs = tokens
for block in $blocks:
    $block
$flow
    theirs = pytorch(theirs, p)
output = x
apart = (output.double() - theirs.double()).abs().max()
""")

BLOCKS_FROM_SEEDS: Final = Template("""\
seeds = [  # of each block: every tensor has a generator of its own
$seeds
]


def draw(seed, *shape, scale=1.0, shift=0.0):
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (noise * scale + shift).to(dtype)


def draw_block(seeds):  # each tensor by its name
    shapes = {"w_1": (F, E), "b_1": (F,), "w_2": (E, F)} | {f"w_{name}": (E, E) for name in "qkvo"}
    scales = {name: 0.2 for name in parameters if name.startswith("norm")} | {"w_2": 1 / math.sqrt(F)}
    return {
        name: draw(
            seed,
            *shapes.get(name, (E,)),
            scale=scales.get(name, 1 / math.sqrt(E)),
            shift=1.0 if name.startswith("norm") and name.endswith("weight") else 0.0,
        )
        for name, seed in zip(parameters, seeds)
    }


""")
DRAWN_BLOCK: Final = "p = draw_block(block)"
TAKEN_BLOCK: Final = 'p = {name: take(f"{block}.{name}") for name in parameters}'

POST_NORM: Final = """\
    weights, attended = attend(x, p)
    norm_1 = norm(x + attended, p, 1)
    x = norm(norm_1 + feed(norm_1, p), p, 2)"""

PRE_NORM: Final = """\
    weights, attended = attend(norm(x, p, 1), p)
    sum_1 = x + attended
    x = sum_1 + feed(norm(sum_1, p, 2), p)"""

GELU: Final = "    activated = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))"
GELU_IN_HALF: Final = """\
    wide = hidden.float()  # one rounding, at the end
    activated = (wide * 0.5 * (1 + torch.erf(wide / math.sqrt(2)))).to(dtype)"""
RELU: Final = "    activated = torch.where(hidden <= 0, 0.0, hidden)"
MOVED: Final = "normed * weight + bias"
MOVED_IN_HALF: Final = "(normed * weight + bias).to(dtype)"
WIDENED: Final = "    x, weight, bias = x.float(), weight.float(), bias.float()  # one rounding, at the end\n"

PRINTING: Final = Template("""

def show(numbers):  # with all the digits that $dtype has
    return " ".join(f"{number:.${digits}g}" for number in numbers.tolist())


print("output", tuple(output.shape), "sum", f"{output.double().sum():.${digits}g}")
print("weights of head $named, query $query:", show(weights[0, $head, $query, :$most]))
print("output begins:", show(output.flatten()[:$first]))
print("largest difference from PyTorch's:", f"{apart:.1e}")
""")
