#include "trainer/parameter_file.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "formats/error.h"

namespace millrace {
namespace {

constexpr size_t kMostNamesShown = 5;

std::string first_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamesShown);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

std::vector<NamedTensor> parameter_tensors(const ParameterLayout& layout, std::span<const float> values,
                                           const std::string& suffix, std::span<const uint8_t> included) {
  std::vector<NamedTensor> tensors;
  std::vector<NamedTensor> second;
  for (size_t id = 0; id < layout.parameters().size(); ++id) {
    if (!included.empty() && included[id] == 0) continue;
    const Parameter& parameter = layout.parameters()[id];
    tensors.push_back({.name = parameter.name + suffix,
                       .type = TensorType::kF32,
                       .shape = parameter.shape,
                       .bytes = std::as_bytes(values.subspan(static_cast<size_t>(parameter.offset),
                                                             static_cast<size_t>(parameter.size)))});
    if (parameter.second_name.empty()) continue;
    second.push_back(tensors.back());
    second.back().name = parameter.second_name + suffix;
  }
  tensors.insert(tensors.end(), second.begin(), second.end());
  return tensors;
}

void read_parameters(const SafetensorsFile& file, const std::string& path, const ParameterLayout& layout,
                     std::span<const ParameterBuffer> buffers, const ParametersInFile& there) {
  std::vector<std::string> missing;
  std::vector<std::string> misshapen;
  std::vector<std::string> differing;
  std::vector<std::string> known(there.ignored.begin(), there.ignored.end());
  const auto check_copy = [&](const std::string& name, const std::string& copy) {
    known.push_back(copy);
    const NamedTensor* first = file.find(name);
    const NamedTensor* second = file.find(copy);
    if (first == nullptr || second == nullptr) return;
    const bool same =
        first->type == second->type && first->shape == second->shape && std::ranges::equal(first->bytes, second->bytes);
    if (!same) differing.push_back(fmt::format("{} and {}", name, copy));
  };
  for (const TiedCopy& copy : there.copies) check_copy(copy.parameter, copy.name);
  for (const ParameterBuffer& buffer : buffers) {
    for (size_t id = 0; id < layout.parameters().size(); ++id) {
      if (!there.included.empty() && there.included[id] == 0) continue;
      const Parameter& parameter = layout.parameters()[id];
      const std::string name = parameter.name + buffer.suffix;
      known.push_back(name);
      const NamedTensor* tensor = file.find(name);
      if (tensor == nullptr) {
        missing.push_back(name);
      } else if (tensor->type != TensorType::kF32 || tensor->shape != parameter.shape) {
        misshapen.push_back(fmt::format("{} ({} [{}], the model has F32 [{}])", name, to_string(tensor->type),
                                        fmt::join(tensor->shape, ","), fmt::join(parameter.shape, ",")));
      } else {
        std::memcpy(buffer.values.data() + parameter.offset, tensor->bytes.data(), tensor->bytes.size());
      }
      if (!parameter.second_name.empty()) check_copy(name, parameter.second_name + buffer.suffix);
    }
  }
  std::sort(known.begin(), known.end());
  std::vector<std::string> unexpected;
  for (const NamedTensor& tensor : file.tensors()) {
    if (!std::binary_search(known.begin(), known.end(), tensor.name)) unexpected.push_back(tensor.name);
  }
  std::vector<std::string> complaints;
  if (!missing.empty()) complaints.push_back("missing: " + first_names(missing));
  if (!misshapen.empty()) complaints.push_back("of another shape: " + first_names(misshapen));
  if (!differing.empty()) complaints.push_back("two names of one parameter, but different: " + first_names(differing));
  if (!unexpected.empty()) complaints.push_back("unexpected: " + first_names(unexpected));
  if (complaints.empty()) return;
  throw ErrorException({.code = ErrorCode::kInvalidArgument,
                        .message = fmt::format("the file is of another model; {}", fmt::join(complaints, "; ")),
                        .shard = path});
}

}  // namespace millrace
