#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/safetensors/reader.h"

namespace millrace::test {

/// All of a safetensors file in memory: to be compared, or changed and written again. The tensors point into this.
class LoadedTensors {
 public:
  explicit LoadedTensors(const std::string& path) {
    const SafetensorsFile file(path);
    metadata_ = file.metadata();
    for (const StoredTensor& tensor : file.tensors()) {
      std::vector<std::byte>& bytes = bytes_.emplace_back(tensor.num_bytes);
      tensor.read(0, bytes);
      tensors_.push_back({.name = tensor.name, .type = tensor.type, .shape = tensor.shape, .bytes = bytes});
    }
  }
  LoadedTensors(LoadedTensors&&) = default;

  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const NamedTensor* find(std::string_view name) const {
    for (const NamedTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }

 private:
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<NamedTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace millrace::test
