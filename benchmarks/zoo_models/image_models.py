"""Architectures of timm and torchvision on small images, as narrow as their arguments allow."""

from __future__ import annotations

import contextlib
from typing import Any

from zoo_models import Architecture, Example, library, seeded

# timm: name, side of the image, arguments beside the name
TIMM: list[tuple[str, int, dict[str, Any]]] = [
    ("resnet18", 32, {"channels": (8, 16, 24, 32), "stem_width": 8}),
    ("resnext50_32x4d", 32, {"layers": (1, 1, 1, 1), "channels": (8, 16, 24, 32), "cardinality": 4, "base_width": 32}),
    ("seresnet18", 32, {"channels": (8, 16, 24, 32)}),
    ("mobilenetv2_050", 32, {}),
    ("mobilenetv3_small_050", 32, {}),
    ("efficientnet_b0", 32, {}),
    ("mnasnet_small", 32, {}),
    ("ghostnet_050", 32, {}),
    ("convnext_atto", 32, {"depths": (1, 1, 1, 1), "dims": (16, 32, 48, 64)}),
    ("convnextv2_atto", 32, {"depths": (1, 1, 1, 1), "dims": (16, 32, 48, 64)}),
    ("densenet121", 32, {"growth_rate": 8, "block_config": (2, 2, 2, 2)}),
    ("regnetx_002", 32, {}),
    ("repvgg_a0", 32, {}),
    ("vit_tiny_patch16_224", 32, {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 64, "num_heads": 4}),
    ("deit3_small_patch16_224", 32, {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 64, "num_heads": 4}),
    ("eva02_tiny_patch14_224", 28, {"img_size": 28, "depth": 2}),
    ("swin_tiny_patch4_window7_224", 32, {"img_size": 32, "window_size": 4, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4)}),
    ("swinv2_tiny_window8_256", 32, {"img_size": 32, "window_size": 4, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4)}),
    ("mlp_mixer.MlpMixer", 32, {"img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 64}),
    ("resmlp_12_224", 32, {"img_size": 32}),
    ("poolformer_s12", 64, {}),
    ("levit_128s", 64, {"img_size": 64}),
    ("coatnet_nano_rw_224", 64, {"img_size": 64, "depths": (1, 1, 1, 1), "embed_dim": (32, 64, 96, 128)}),
    ("cait_xxs24_224", 32, {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 64, "num_heads": 4}),
    ("xcit_nano_12_p16_224", 64, {"depth": 2}),
    ("pvt_v2_b0", 64, {"depths": (1, 1, 1, 1)}),
    ("edgenext_xx_small", 64, {"depths": (1, 1, 2, 1), "dims": (16, 32, 48, 64)}),
    ("mobilevit_xxs", 64, {}),
    ("mobileone_s0", 32, {}),
    ("res2net50_26w_4s", 32, {"layers": (1, 1, 1, 1)}),
    ("dla34", 64, {"levels": (1, 1, 1, 1, 1, 1), "channels": (8, 8, 16, 16, 24, 32)}),
    ("hardcorenas_a", 32, {}),
    ("tinynet_e", 32, {}),
    ("fastvit_t8", 64, {"layers": (1, 1, 1, 1)}),
    ("crossvit_tiny_240", 120, {"img_size": 120, "depth": [[1, 1, 0]] * 3}),
]  # fmt: skip

# torchvision: name, side of the image, arguments
TORCHVISION: list[tuple[str, int, dict[str, Any]]] = [
    ("alexnet", 64, {}),
    ("vgg11", 32, {}),
    ("resnet18", 32, {}),
    ("wide_resnet50_2", 32, {}),
    ("googlenet", 64, {"init_weights": False}),
    ("inception_v3", 80, {"init_weights": False}),
    ("squeezenet1_1", 64, {}),
    ("shufflenet_v2_x0_5", 32, {}),
    ("mobilenet_v3_small", 32, {}),
    ("mnasnet0_5", 32, {}),
    ("efficientnet_b0", 32, {}),
    ("regnet_y_400mf", 32, {}),
    ("convnext_tiny", 32, {}),
    ("swin_t", 32, {}),
    ("vit_b_16", 32, {"image_size": 32}),
    ("maxvit_t", 224, {}),
    ("segmentation.lraspp_mobilenet_v3_large", 64, {"weights_backbone": None}),
    ("segmentation.deeplabv3_mobilenet_v3_large", 64, {"weights_backbone": None}),
    ("segmentation.fcn_resnet50", 64, {"weights_backbone": None}),
    ("video.r3d_18", 16, {}),
]  # fmt: skip


def compiled_operators() -> None:
    """Declare the operators that torchvision's Python side needs and its library brings.

    The wheel's compiled library fits one build of torch only; without it torchvision cannot even
    be imported, although classification and segmentation never call what is in it.
    """
    torch = library("torch")

    global _library
    if _library is None:
        _library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            with contextlib.suppress(RuntimeError):  # the compiled library is there and has it
                _library.define(f"{name}(Tensor dets, Tensor scores, float limit) -> Tensor")


_library: Any = None


def image(side: int, *leading: int) -> Any:
    torch = library("torch")

    generator = torch.Generator().manual_seed(2)
    return torch.randn((1, 3, *leading, side, side), generator=generator)


def timm_model(name: str, side: int, options: dict[str, Any]) -> Example:
    compiled_operators()
    timm = library("timm")

    room, _, kind = name.rpartition(".")
    if room:  # a class, where functions by name do not take what makes it small
        made = getattr(getattr(timm.models, room), kind)
        return Example(seeded(lambda: made(num_classes=10, **options)), (image(side),))
    module = seeded(lambda: timm.create_model(name, pretrained=False, num_classes=10, **options))
    return Example(module, (image(side),))


def torchvision_model(name: str, side: int, options: dict[str, Any]) -> Example:
    compiled_operators()
    torchvision = library("torchvision")

    room, _, function = name.rpartition(".")
    models = getattr(torchvision.models, room) if room else torchvision.models
    classes = {} if "weights_backbone" in options else {"num_classes": 10}
    module = seeded(lambda: getattr(models, function)(weights=None, **classes, **options))
    return Example(module, (image(side, *([4] if room == "video" else [])),))


def architectures() -> list[Architecture]:
    return [
        *(Architecture(row[0], "timm", lambda row=row: timm_model(*row)) for row in TIMM),
        *(
            Architecture(row[0], "torchvision", lambda row=row: torchvision_model(*row))
            for row in TORCHVISION
        ),
    ]
