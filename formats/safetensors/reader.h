#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/safetensors/tensor.h"

namespace millrace {

/// A safetensors file (https://huggingface.co/docs/safetensors) read into memory and checked: 8 bytes with the length
/// of the header, the header as JSON, then the tensors without gaps. Immutable; any thread.
///
///     const SafetensorsFile file("model.safetensors");
///     for (const NamedTensor& tensor : file.tensors()) use(file.values<float>(tensor.name));
class SafetensorsFile {
 public:
  /// Reads the file. Throws `kIo` when it cannot be read, `kParse` naming the file and what is wrong with it when it is
  /// damaged, holds a type that we do not read, or has bytes that belong to no tensor. No length in it is believed
  /// before it is compared with the bytes that are there.
  explicit SafetensorsFile(const std::string& path);

  /// In order of their bytes in the file.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  /// The `__metadata__` of the header, such as `format: pt`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// A tensor by name, or null.
  const NamedTensor* find(std::string_view name) const;
  /// A copy of a tensor's values, row-major (the bytes in the file need not be aligned); T is float, double, int32_t,
  /// int64_t or uint8_t. Throws `kMissingFeature` when there is none of that name, `kWrongShape` when it has another
  /// type.
  template <typename T>
  std::vector<T> values(std::string_view name) const {
    const NamedTensor& tensor = get(name, TensorTypeOf<T>::value);
    std::vector<T> copy(tensor.bytes.size() / sizeof(T));
    if (!copy.empty()) std::memcpy(copy.data(), tensor.bytes.data(), tensor.bytes.size());
    return copy;
  }

 private:
  const NamedTensor& get(std::string_view name, TensorType type) const;

  std::string path_;
  std::string data_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace millrace
