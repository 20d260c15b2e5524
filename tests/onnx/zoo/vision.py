# Networks for images at their published sizes, as plain modules of PyTorch with random weights.
# SPDX-License-Identifier: Apache-2.0
"""Sizes, orders of layers and constants are those of the papers that each class names. Images are [batch, 3, height, width]."""
import torch
from torch import nn
from torch.nn import functional as F


def divisible(channels, by=8):
    """The channels of a scaled network: a multiple of `by`, at least nine tenths of what was asked for."""
    near = max(by, int(channels + by / 2) // by * by)
    return near + by if near < 0.9 * channels else near


def convolution(inputs, outputs, size=3, stride=1, groups=1, act=None, eps=1e-5):
    """Convolution without bias, batch normalization, function."""
    layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs, eps=eps)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Bottleneck(nn.Module):
    """He et al. 2015: 1x1, 3x3, 1x1 and a way around them; the stride in the 3x3, as in what people train today."""

    widening = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(convolution(inputs, width, 1, act=nn.ReLU), convolution(width, width, 3, stride, act=nn.ReLU),
                                  convolution(width, 4 * width, 1))
        self.around = convolution(inputs, 4 * width, 1, stride) if stride > 1 or inputs != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.around(x))


class Basic(nn.Module):
    """He et al. 2015: two 3x3 and a way around them."""

    widening = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(convolution(inputs, width, 3, stride, act=nn.ReLU), convolution(width, width))
        self.around = convolution(inputs, width, 1, stride) if stride > 1 or inputs != width else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.around(x))


class ResNet(nn.Module):
    def __init__(self, block, depths, classes=1000):
        super().__init__()
        layers, at = [convolution(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
        for stage, depth in enumerate(depths):
            for i in range(depth):
                layers.append(block(at, 64 << stage, 2 if stage and not i else 1))
                at = (64 << stage) * block.widening
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(at, classes))

    def forward(self, x):
        return self.body(x)


class Excitation(nn.Module):
    """Hu et al. 2017: each channel times what two products make of the channels' means."""

    def __init__(self, channels, squeezed, act, gate):
        super().__init__()
        self.down, self.up, self.act, self.gate = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1), act(), gate()

    def forward(self, x):
        return x * self.gate(self.up(self.act(self.down(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    """Sandler et al. 2018: wider by a 1x1, depthwise, narrower by a 1x1 without a function, around it where shapes allow."""

    def __init__(self, inputs, wide, outputs, size, stride, act, squeeze=None, eps=1e-5):
        super().__init__()
        layers = [convolution(inputs, wide, 1, act=act, eps=eps)] if wide != inputs else []
        layers.append(convolution(wide, wide, size, stride, wide, act, eps))
        if squeeze:
            layers.append(squeeze(wide))
        self.body, self.around = nn.Sequential(*layers, convolution(wide, outputs, 1, eps=eps)), stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.around else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers, at = [convolution(3, 32, 3, 2, act=nn.ReLU6)], 32
        for wider, channels, times, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for i in range(times):
                layers.append(Inverted(at, at * wider, channels, 3, stride if i == 0 else 1, nn.ReLU6))
                at = channels
        self.body = nn.Sequential(*layers, convolution(at, 1280, 1, act=nn.ReLU6))
        self.head = nn.Linear(1280, classes)

    def forward(self, x):
        return self.head(self.body(x).mean([2, 3]))


# Howard et al. 2019, table 1: size, wide, outputs, squeezed, h-swish, stride.
V3_LARGE = ((3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1), (5, 72, 40, True, False, 2),
            (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1), (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1),
            (3, 184, 80, False, True, 1), (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
            (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1))  # fmt: skip


def v3_body():
    """The layers of MobileNet v3 large, and the channels behind each."""
    layers, outputs, at = [convolution(3, 16, 3, 2, act=nn.Hardswish, eps=1e-3)], [16], 16
    for size, wide, channels, squeezed, swish, stride in V3_LARGE:
        squeeze = (lambda c: Excitation(c, divisible(c // 4), nn.ReLU, nn.Hardsigmoid)) if squeezed else None
        layers.append(Inverted(at, wide, channels, size, stride, nn.Hardswish if swish else nn.ReLU, squeeze, 1e-3))
        at = channels
        outputs.append(at)
    layers.append(convolution(at, 960, 1, act=nn.Hardswish, eps=1e-3))
    return nn.ModuleList(layers), [*outputs, 960]


class MobileNetV3(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.body = nn.Sequential(*v3_body()[0])
        self.head = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, classes))

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1))


class SsdLite(nn.Module):
    """Boxes and scores of Howard et al. 2019's detector at 320 x 320: six maps, six boxes at each place, decoded and clipped; what a
    program does with them (thresholds, suppression) is not in the network."""

    def __init__(self, classes=91):
        super().__init__()
        self.body, channels = v3_body()
        maps = [channels[12], channels[-1], 512, 256, 256, 128]
        self.more = nn.ModuleList(nn.Sequential(convolution(a, b // 2, 1, act=nn.ReLU6), convolution(b // 2, b // 2, 3, 2, b // 2, nn.ReLU6),
                                                convolution(b // 2, b, 1, act=nn.ReLU6)) for a, b in zip(maps[1:], maps[2:]))
        def heads(values):
            return nn.ModuleList(nn.Sequential(convolution(c, c, 3, groups=c, act=nn.ReLU6), nn.Conv2d(c, 6 * values, 1)) for c in maps)

        self.classes, self.scores, self.boxes = classes, heads(classes), heads(4)
        anchors = []
        for size, scale in zip((20, 10, 5, 3, 2, 1), (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)):
            y, x = torch.meshgrid(*2 * [(torch.arange(size) + 0.5) / size], indexing="ij")
            for ratio in (1, 1.2, 2, 0.5, 3, 1 / 3):
                w, h = scale * ratio**0.5, scale / ratio**0.5
                anchors.append(torch.stack([x, y, torch.full_like(x, w), torch.full_like(x, h)], -1).reshape(size * size, 1, 4))
        grouped = [torch.cat(anchors[i : i + 6], 1).reshape(-1, 4) for i in range(0, 36, 6)]
        self.register_buffer("anchors", torch.cat(grouped))

    def forward(self, x):
        maps = []
        for i, layer in enumerate(self.body):
            x = layer(x)
            if i == 12:
                maps.append(x)
        maps.append(x)
        for layer in self.more:
            maps.append(layer(maps[-1]))

        def places(heads, values):
            return torch.cat([h(m).permute(0, 2, 3, 1).reshape(m.shape[0], -1, values) for h, m in zip(heads, maps)], 1)

        moved = places(self.boxes, 4)
        middle = moved[..., :2] * 0.1 * self.anchors[:, 2:] + self.anchors[:, :2]
        half = torch.exp(torch.clamp(moved[..., 2:] * 0.2, max=4.135)) * self.anchors[:, 2:] / 2
        return torch.cat([middle - half, middle + half], -1).clamp(0, 1), torch.softmax(places(self.scores, self.classes), -1)


class EfficientNetB0(nn.Module):
    """Tan and Le 2019."""

    def __init__(self, classes=1000):
        super().__init__()
        layers, at = [convolution(3, 32, 3, 2, act=nn.SiLU)], 32
        for wider, size, stride, channels, times in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
                                                     (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):  # fmt: skip
            for i in range(times):
                squeezed = max(1, at // 4)
                layers.append(Inverted(at, at * wider, channels, size, stride if i == 0 else 1, nn.SiLU,
                                       lambda c, s=squeezed: Excitation(c, s, nn.SiLU, nn.Sigmoid)))
                at = channels
        self.body = nn.Sequential(*layers, convolution(at, 1280, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes))

    def forward(self, x):
        return self.body(x)


class DenseNet121(nn.Module):
    """Huang et al. 2016: each layer reads everything before it."""

    def __init__(self, classes=1000, growth=32):
        super().__init__()
        self.first, at = nn.Sequential(convolution(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)), 64
        self.blocks, self.between = nn.ModuleList(), nn.ModuleList()
        for stage, depth in enumerate((6, 12, 24, 16)):
            layers = nn.ModuleList()
            for _ in range(depth):
                layers.append(nn.Sequential(nn.BatchNorm2d(at), nn.ReLU(), nn.Conv2d(at, 4 * growth, 1, bias=False), nn.BatchNorm2d(4 * growth), nn.ReLU(),
                                            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)))
                at += growth
            self.blocks.append(layers)
            if stage < 3:
                self.between.append(nn.Sequential(nn.BatchNorm2d(at), nn.ReLU(), nn.Conv2d(at, at // 2, 1, bias=False), nn.AvgPool2d(2)))
                at //= 2
        self.norm, self.head = nn.BatchNorm2d(at), nn.Linear(at, classes)

    def forward(self, x):
        x = self.first(x)
        for stage, layers in enumerate(self.blocks):
            made = [x]
            for layer in layers:
                made.append(layer(torch.cat(made, 1)))
            x = torch.cat(made, 1)
            if stage < 3:
                x = self.between[stage](x)
        return self.head(F.adaptive_avg_pool2d(F.relu(self.norm(x)), 1).flatten(1))


class VisionLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.before, self.norm = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attention(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, width))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.feed(self.norm(x))


class VisionTransformer(nn.Module):
    """Dosovitskiy et al. 2020: ViT-B/16."""

    def __init__(self, classes=1000, width=768, layers=12, heads=12):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, 16, 16), nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, 197, width))
        self.body = nn.Sequential(*(VisionLayer(width, heads) for _ in range(layers)), nn.LayerNorm(width, eps=1e-6))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.body(x)[:, 0])


class WindowLayer(nn.Module):
    """Liu et al. 2021: attention within windows of 7 x 7, every second layer's shifted by 3 (around the edges, masked)."""

    def __init__(self, width, heads, size, shift):
        super().__init__()
        self.heads, self.size, self.shift = heads, size, shift if size > 7 else 0
        self.before, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.bias = nn.Parameter(0.02 * torch.randn(169, heads))
        at = torch.stack(torch.meshgrid(torch.arange(7), torch.arange(7), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + 6
        self.register_buffer("index", (apart[0] * 13 + apart[1]).flatten())
        if self.shift:
            region = torch.zeros(1, size, size, 1)
            for i, rows in enumerate((slice(0, -7), slice(-7, -3), slice(-3, None))):
                for j, columns in enumerate((slice(0, -7), slice(-7, -3), slice(-3, None))):
                    region[:, rows, columns] = 3 * i + j
            w = self.windows(region).squeeze(-1)
            self.register_buffer("mask", torch.where(w[:, :, None] == w[:, None, :], 0.0, -100.0))

    def windows(self, x):
        n, channels, side = x.shape[0], x.shape[3], self.size // 7
        return x.reshape(n, side, 7, side, 7, channels).permute(0, 1, 3, 2, 4, 5).reshape(n * side * side, 49, channels)

    def attention(self, x):
        n, side = x.shape[0], self.size // 7
        if self.shift:
            x = torch.roll(x, (-3, -3), (1, 2))
        w = self.windows(x)
        width = w.shape[2]
        q, k, v = self.qkv(w).reshape(-1, 49, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5 + self.bias[self.index].reshape(49, 49, self.heads).permute(2, 0, 1)
        if self.shift:
            scores = (scores.reshape(n, side * side, self.heads, 49, 49) + self.mask[None, :, None]).reshape(-1, self.heads, 49, 49)
        y = self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(-1, 49, width))
        y = y.reshape(n, side, side, 7, 7, width).permute(0, 1, 3, 2, 4, 5).reshape(n, self.size, self.size, width)
        return torch.roll(y, (3, 3), (1, 2)) if self.shift else y

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.feed(self.norm(x))


class Merging(nn.Module):
    """Four neighbours become one place of twice the width."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.narrow = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        return self.narrow(self.norm(torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)))


class SwinT(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 96, 4, 4), nn.LayerNorm(96)
        layers = []
        for stage, depth in enumerate((2, 2, 6, 2)):
            width, size = 96 << stage, 56 >> stage
            layers += [WindowLayer(width, width // 32, size, 3 * (i % 2)) for i in range(depth)]
            if stage < 3:
                layers.append(Merging(width))
        self.body, self.head = nn.Sequential(*layers, nn.LayerNorm(768)), nn.Linear(768, classes)

    def forward(self, x):
        return self.head(self.body(self.norm(self.patches(x).permute(0, 2, 3, 1))).mean([1, 2]))


class UNet(nn.Module):
    """Ronneberger et al. 2015, padded, with batch normalization; 256 x 256."""

    def __init__(self, classes=2, width=64):
        super().__init__()

        def twice(a, b):
            return nn.Sequential(convolution(a, b, act=nn.ReLU), convolution(b, b, act=nn.ReLU))

        widths = [width << i for i in range(5)]
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([3, *widths], widths))
        self.wider = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(twice(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(4)):
            x = self.up[i](torch.cat([kept[i], self.wider[i](x)], 1))
        return self.last(x)


def models(batch):
    """Name, module, inputs by name, names of outputs."""

    def image(size=224):
        return {"image": torch.randn(batch, 3, size, size)}

    yield "resnet18", lambda: ResNet(Basic, (2, 2, 2, 2)), image(), ["logits"]
    yield "resnet50", lambda: ResNet(Bottleneck, (3, 4, 6, 3)), image(), ["logits"]
    yield "mobilenet_v2", MobileNetV2, image(), ["logits"]
    yield "mobilenet_v3", MobileNetV3, image(), ["logits"]
    yield "efficientnet_b0", EfficientNetB0, image(), ["logits"]
    yield "densenet121", DenseNet121, image(), ["logits"]
    yield "vit_b16", VisionTransformer, image(), ["logits"]
    yield "swin_t", SwinT, image(), ["logits"]
    yield "ssdlite", SsdLite, image(320), ["boxes", "scores"]
    yield "unet", UNet, image(256), ["classes"]
