#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/formats/example/feature_description.h"
#include "millrace/ops/images/decode_image.h"
#include "millrace/ops/images/normalize.h"
#include "millrace/ops/tokens/mask_tokens.h"

namespace millrace {

/// What the records of the workloads hold, for those that make their batches: the pipelines and their floors.

/// `mlm`: ids as int32 and attention mask of 512 positions.
[[nodiscard]] std::vector<FeatureDescription> mlm_features();
[[nodiscard]] MaskTokensOptions mlm_masking(uint64_t seed);
/// `quest`: two texts of 416 and 480 ids as int32 with masks, and 30 labels.
[[nodiscard]] std::vector<FeatureDescription> quest_features();
/// `bucket` and `pad`: tokens of any number and a label.
[[nodiscard]] std::vector<FeatureDescription> token_features();

/// `images`: two features, each the TensorProto of an image of this shape.
struct WorkloadImage {
  const char* feature;
  Shape shape;
};
[[nodiscard]] std::vector<WorkloadImage> workload_images();

/// `jpeg` and `jpeg_scaled`: a picture and its class, by the names that TensorFlow's data sets have.
constexpr std::string_view kEncodedImage = "image/encoded";
constexpr std::string_view kImageLabel = "image/class/label";
[[nodiscard]] std::vector<FeatureDescription> jpeg_features();
/// What becomes of pictures: random resized crops, of this side, normalized with the mean and deviation of ImageNet.
constexpr int64_t kPictureSide = 224;
[[nodiscard]] DecodeImageOptions jpeg_decoding(uint64_t seed, bool scaled);
[[nodiscard]] NormalizeOptions picture_normalization();

/// `noop`: how often 1 is added.
constexpr int kNoopMaps = 4;

}  // namespace millrace
