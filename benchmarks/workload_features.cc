#include "benchmarks/workload_features.h"

namespace millrace {

std::vector<FeatureDescription> mlm_features() {
  constexpr int64_t kLength = 512;
  return {fixed_len("input_ids", {kLength}, DType::kInt64).as(DType::kInt32),
          fixed_len("attention_mask", {kLength}, DType::kInt64)};
}

MaskTokensOptions mlm_masking(uint64_t seed) {
  return {.vocab_size = 25000, .mask_token = 4, .special_tokens = {0, 1}, .seed = seed};
}

std::vector<FeatureDescription> quest_features() {
  const auto ids = [](const char* key, int64_t length) {
    return fixed_len(key, {length}, DType::kInt64).as(DType::kInt32);
  };
  return {ids("input_ids_question", 416), ids("input_mask_question", 416), ids("input_ids_answer", 480),
          ids("input_mask_answer", 480), fixed_len("labels", {30}, DType::kFloat32)};
}

std::vector<FeatureDescription> token_features() {
  return {var_len("tokens", DType::kInt64), fixed_len("label", {}, DType::kInt64)};
}

std::vector<WorkloadImage> workload_images() {
  return {{"low_res_image", {128, 128, 3}}, {"high_res_image", {512, 512, 3}}};
}

std::vector<FeatureDescription> jpeg_features() {
  return {fixed_len(std::string(kEncodedImage), {}, DType::kBytes),
          fixed_len(std::string(kImageLabel), {}, DType::kInt64)};
}

DecodeImageOptions jpeg_decoding(uint64_t seed, bool scaled) {
  return {.crop = ImageCrop{.kind = CropKind::kRandomResized}, .seed = seed, .least_side = scaled ? kPictureSide : 0};
}

NormalizeOptions picture_normalization() {
  return {.feature = std::string(kEncodedImage),
          .mean = {123.675, 116.28, 103.53},
          .standard_deviation = {58.395, 57.12, 57.375}};
}

}  // namespace millrace
