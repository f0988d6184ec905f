#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/safetensors/tensor.h"

namespace millrace {

class BlockingFile;

/// A tensor in a file, row-major, that is read when somebody asks for it.
struct StoredTensor {
  std::string name = {};
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape = {};
  std::shared_ptr<BlockingFile> file = {};
  uint64_t begin = 0;      ///< its first byte in `file`
  uint64_t num_bytes = 0;  ///< of `shape` and `type`

  /// Fills `destination` with its bytes from `offset` on. Throws the storage's error, and `truncated` when the file has
  /// become shorter.
  void read(uint64_t offset, std::span<std::byte> destination) const;
  /// Calls `take` with all its bytes, piece by piece: at most 1 MiB of whole values, from `offset` on.
  void each_piece(const std::function<void(uint64_t offset, std::span<const std::byte> bytes)>& take) const;
};

/// Whether two tensors have one type, one shape and the same bytes.
[[nodiscard]] bool is_equal(const StoredTensor& a, const StoredTensor& b);

/// A safetensors file (https://huggingface.co/docs/safetensors): 8 bytes with the length of the header, the header as
/// JSON, then the tensors without gaps. The header is read and checked at once, tensors when they are asked for, so
/// that no more than one of them need be in memory. One thread at a time for a file and its tensors.
///
///     const SafetensorsFile file("model.safetensors");
///     const std::vector<float> bias = file.values<float>("lm_head.bias");
class SafetensorsFile {
 public:
  /// Throws `kIo` when it cannot be read, `kParse` naming the file and what is wrong with it when it is damaged, holds
  /// a type that we do not read, or has bytes that belong to no tensor. No length in it is believed before it is
  /// compared with the bytes that are there.
  explicit SafetensorsFile(const std::string& path);

  /// In order of their bytes in the file, which stays open as long as one of them is there.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// The `__metadata__` of the header, such as `format: pt`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// A tensor by name, or null.
  const StoredTensor* find(std::string_view name) const;
  /// The values of a tensor; T is float, double, int32_t, int64_t or uint8_t. Throws `kMissingFeature` when there is
  /// none of that name, `kWrongShape` when it has another type, and as `StoredTensor::read`.
  template <typename T>
  std::vector<T> values(std::string_view name) const {
    const StoredTensor& tensor = get(name, TensorTypeOf<T>::value);
    std::vector<T> values(tensor.num_bytes / sizeof(T));
    tensor.read(0, std::as_writable_bytes(std::span(values)));
    return values;
  }

 private:
  const StoredTensor& get(std::string_view name, TensorType type) const;

  std::string path_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace millrace
