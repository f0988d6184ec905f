#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/safetensors/reader.h"

namespace millrace {

/// The weights of a model in a directory, in the layout of Hugging Face transformers: `model.safetensors`, or several
/// parts that `model.safetensors.index.json` names (`weight_map`: tensor → file). Where safetensors' `save_model` has
/// left out a tensor that shares its memory with another one, and the metadata say which (name → name), it is there all
/// the same. Tensors are read when they are asked for, by one thread at a time.
class WeightFiles {
 public:
  /// Throws `kIo` when there is neither file or a part cannot be read, and `kParse` naming the file for what is
  /// damaged, for a part that lacks a tensor which it should have, and for a tensor that is in two parts.
  explicit WeightFiles(const std::string& directory);
  /// Whether there is one of the two files.
  static bool are_in(const std::string& directory);

  /// The file that was opened, for messages: of several the one that names them.
  const std::string& path() const { return path_; }
  /// Those of all parts.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  /// By name, or null.
  const StoredTensor* find(std::string_view name) const;

 private:
  SafetensorsFile add(const std::string& path);
  void add_parts(const std::string& directory);

  std::string path_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace millrace
