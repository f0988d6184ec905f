#include "millrace/trainer/checkpoint/parameter_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include <Eigen/Core>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/not_finite.h"

namespace millrace {
namespace {

constexpr size_t kMostNamesShown = 5;

std::string first_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamesShown);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

// `floats`: the bytes of the tensor's values as float32, from value `first` on.
void need_finite(const std::string& tensor, size_t first, std::span<const std::byte> floats, const std::string& path) {
  const auto found = first_not_finite(floats);
  if (!found) return;
  throw ErrorException({.code = ErrorCode::kInvalidArgument,
                        .message = fmt::format("tensor '{}' is not finite: its value {} is {}", tensor,
                                               first + found->position, found->value),
                        .shard = path});
}

void need_finite(const StoredTensor& tensor, const std::string& path) {
  tensor.each_piece([&](uint64_t offset, std::span<const std::byte> floats) {
    need_finite(tensor.name, offset / sizeof(float), floats, path);
  });
}

// What an Eigen type of half the width holds, as floats; the bytes need not be aligned.
template <typename Half>
void widen(std::span<const std::byte> bytes, float* to) {
  for (size_t i = 0; i < bytes.size() / sizeof(Half); ++i) {
    Half half;
    std::memcpy(&half, bytes.data() + i * sizeof(Half), sizeof(Half));
    to[i] = static_cast<float>(half);
  }
}

// A parameter in a file, of a type that is taken and of the shape that the layout says.
struct FoundTensor {
  const StoredTensor* tensor;
  size_t buffer;   // by the place of its suffix
  int64_t offset;  // in it
};

// All parameters, under each of the suffixes. Throws as `read_parameters`. `from_others`: as `read_weights` has it.
std::vector<FoundTensor> find_parameters(std::span<const StoredTensor> tensors, const std::string& path,
                                         const ParameterLayout& layout, std::span<const std::string> suffixes,
                                         const ParametersInFile& there, bool from_others) {
  std::map<std::string_view, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  const auto find = [&by_name](const std::string& name) -> const StoredTensor* {
    const auto tensor = by_name.find(name);
    return tensor == by_name.end() ? nullptr : tensor->second;
  };
  std::vector<FoundTensor> found;
  std::vector<std::string> missing;
  std::vector<std::string> misshapen;
  std::vector<std::string> differing;
  std::vector<std::string> known(there.ignored.begin(), there.ignored.end());
  const auto first_copy_of = [&](const std::string& parameter) -> const StoredTensor* {
    for (const TiedCopy& copy : there.copies) {
      const StoredTensor* tensor = copy.parameter == parameter ? find(copy.name) : nullptr;
      if (tensor != nullptr) return tensor;
    }
    return nullptr;
  };
  // Of a parameter that is missing, the first of its copies stands for it.
  const auto check_copy = [&](const std::string& name, const std::string& copy) {
    known.push_back(copy);
    const StoredTensor* first = find(name);
    if (first == nullptr) first = first_copy_of(name);
    const StoredTensor* second = find(copy);
    if (first == nullptr || second == nullptr) return;
    if (!is_equal(*first, *second)) differing.push_back(fmt::format("{} and {}", first->name, copy));
  };
  // The parameter itself; else, of others' files, the first of its copies.
  const auto find_parameter = [&](const Parameter& parameter, const std::string& suffix) {
    const StoredTensor* tensor = find(parameter.name + suffix);
    if (tensor != nullptr || !from_others) return tensor;
    if (!parameter.second_name.empty()) tensor = find(parameter.second_name + suffix);
    return tensor != nullptr ? tensor : first_copy_of(parameter.name);
  };
  const auto is_taken = [from_others](TensorType type) {
    return type == TensorType::kF32 || (from_others && (type == TensorType::kF16 || type == TensorType::kBF16));
  };
  for (const TiedCopy& copy : there.copies) check_copy(copy.parameter, copy.name);
  for (size_t buffer = 0; buffer < suffixes.size(); ++buffer) {
    for (size_t id = 0; id < layout.parameters().size(); ++id) {
      if (!there.included.empty() && there.included[id] == 0) continue;
      const Parameter& parameter = layout.parameters()[id];
      const std::string name = parameter.name + suffixes[buffer];
      known.push_back(name);
      const StoredTensor* tensor = find_parameter(parameter, suffixes[buffer]);
      if (tensor == nullptr) {
        missing.push_back(name);
      } else if (!is_taken(tensor->type) || tensor->shape != parameter.shape) {
        misshapen.push_back(fmt::format("{} ({} [{}], the model has F32 [{}])", name, to_string(tensor->type),
                                        fmt::join(tensor->shape, ","), fmt::join(parameter.shape, ",")));
      } else {
        found.push_back({.tensor = tensor, .buffer = buffer, .offset = parameter.offset});
      }
      if (!parameter.second_name.empty()) check_copy(name, parameter.second_name + suffixes[buffer]);
    }
  }
  std::sort(known.begin(), known.end());
  std::vector<std::string> unexpected;
  for (const StoredTensor& tensor : tensors) {
    if (!std::binary_search(known.begin(), known.end(), tensor.name)) unexpected.push_back(tensor.name);
  }
  std::vector<std::string> complaints;
  if (!missing.empty()) complaints.push_back("missing: " + first_names(missing));
  if (!misshapen.empty()) complaints.push_back("of another shape: " + first_names(misshapen));
  if (!differing.empty()) complaints.push_back("two names of one parameter, but different: " + first_names(differing));
  if (!unexpected.empty()) complaints.push_back("unexpected: " + first_names(unexpected));
  if (!complaints.empty()) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = fmt::format("the file is of another model; {}", fmt::join(complaints, "; ")),
                          .shard = path});
  }
  return found;
}

// Reads it as floats; returns where they are.
std::span<const float> read(const FoundTensor& found, std::span<float> buffer) {
  const StoredTensor& tensor = *found.tensor;
  const std::span<float> values =
      buffer.subspan(static_cast<size_t>(found.offset), tensor.num_bytes / size_of(tensor.type));
  const auto widened = [&]<typename Half>(Half) {
    tensor.each_piece([&](uint64_t offset, std::span<const std::byte> bytes) {
      widen<Half>(bytes, values.data() + offset / sizeof(Half));
    });
  };
  switch (tensor.type) {
    case TensorType::kF16: widened(Eigen::half()); break;
    case TensorType::kBF16: widened(Eigen::bfloat16()); break;
    default: tensor.read(0, std::as_writable_bytes(values));
  }
  return values;
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
  std::vector<std::string> suffixes;
  for (const ParameterBuffer& buffer : buffers) suffixes.push_back(buffer.suffix);
  const std::vector<FoundTensor> found =
      find_parameters(file.tensors(), path, layout, suffixes, there, /*from_others=*/false);
  for (const FoundTensor& each : found) need_finite(*each.tensor, path);
  for (const FoundTensor& each : found) read(each, buffers[each.buffer].values);
}

FlatBuffer load_parameters(const std::string& directory, const ParameterLayout& layout) {
  const std::string path = (std::filesystem::path(directory) / "model.safetensors").string();
  FlatBuffer weights(layout.size());
  const ParameterBuffer buffer{.values = weights.span()};
  read_parameters(SafetensorsFile(path), path, layout, {&buffer, 1});
  return weights;
}

FlatBuffer read_weights(std::span<const StoredTensor> tensors, const std::string& path, const ParameterLayout& layout,
                        const ParametersInFile& there) {
  const std::string no_suffix;
  const std::vector<FoundTensor> found =
      find_parameters(tensors, path, layout, {&no_suffix, 1}, there, /*from_others=*/true);
  FlatBuffer weights(layout.size());
  for (const FoundTensor& each : found) {
    need_finite(each.tensor->name, 0, std::as_bytes(read(each, weights.span())), path);
  }
  return weights;
}

}  // namespace millrace
