#include "millrace/trainer/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/name_pattern.h"

namespace millrace {

std::vector<UpdateRange> ranges_of(const ParameterLayout& layout, const Bucket& bucket) {
  std::vector<UpdateRange> ranges;
  for (int id : bucket.parameters) {
    const Parameter& parameter = layout.parameters()[static_cast<size_t>(id)];
    const int64_t begin = std::max(parameter.offset, bucket.begin);
    const int64_t end = std::min(parameter.offset + parameter.size, bucket.end);
    if (begin < end) ranges.push_back({.parameter = id, .begin = begin, .end = end});
  }
  return ranges;
}

LayerSquares Optimizer::direction(const UpdateRange&, const UpdateStep&, const UpdateBuffers&) const {
  throw ErrorException(ErrorCode::kInvalidArgument, describe() + " is not a layer-wise rule");
}

void Optimizer::apply(const UpdateRange&, const UpdateStep&, const UpdateBuffers&, const LayerSquares&) const {
  throw ErrorException(ErrorCode::kInvalidArgument, describe() + " is not a layer-wise rule");
}

std::vector<double> weight_decays(const ParameterLayout& layout, double decay, const std::string& exclude) {
  if (!(decay >= 0) || !std::isfinite(decay)) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("weight_decay is {}; at least 0 is needed", decay));
  }
  std::vector<double> decays(layout.parameters().size(), decay);
  if (exclude.empty()) return decays;
  const NamePattern pattern("exclude_from_decay", exclude);
  bool found = exclude == kUsualExclusion;
  for (size_t id = 0; id < decays.size(); ++id) {
    if (!pattern.matches(layout.parameters()[id])) continue;
    decays[id] = 0;
    found = true;
  }
  pattern.need_match(found);
  return decays;
}

double clip_scale(double norm, double clip_norm, ClipForm form) {
  if (form == ClipForm::kTf) return clip_norm / std::max(norm, clip_norm);
  return std::min(1.0, clip_norm / (norm + 1e-6));
}

}  // namespace millrace
