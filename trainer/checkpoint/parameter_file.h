#pragma once

#include <span>
#include <string>
#include <vector>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/parameters.h"

namespace millrace {

/// A flat buffer and how its tensors are called in a file: the parameter's name and `suffix` after it.
struct ParameterBuffer {
  std::span<float> values = {};  ///< `[layout.size()]`
  std::string suffix = {};       ///< Default: empty
};

/// The tensors of a flat buffer by name, in order of registration, then second names; they point into the buffer.
/// `included`: by parameter, 0 for those that are left out; empty: none is.
std::vector<NamedTensor> parameter_tensors(const ParameterLayout& layout, std::span<const float> values,
                                           const std::string& suffix = "", std::span<const uint8_t> included = {});

/// What a file holds beside the parameters of a layout.
struct TiedCopy {
  std::string name = {};
  std::string parameter = {};  ///< of which it is a copy
};
struct ParametersInFile {
  std::span<const TiedCopy> copies = {};      ///< may be there; equal, where both are. Default: none
  std::span<const std::string> ignored = {};  ///< may be there, and is not read. Default: none
  std::span<const uint8_t> included = {};     ///< as above. Default: empty, all
};

/// Reads each parameter of `layout` into each of `buffers` from a safetensors file, of which `path` is the name for
/// messages. Throws `kInvalidArgument` with the names that are missing, of another type or shape, or unexpected
/// (neither a parameter's nor in `there`), when the values of a copy or under a second name differ from the
/// parameter's, and for the first tensor with a value that is infinite or NaN; nothing is written then. Throws what the
/// storage does, after which anything may have been written. A second name may be missing.
void read_parameters(const SafetensorsFile& file, const std::string& path, const ParameterLayout& layout,
                     std::span<const ParameterBuffer> buffers, const ParametersInFile& there = {});
/// The weights in `model.safetensors` of a directory: of a checkpoint, or of a model that `KeepBest` has kept, for a
/// `Predictor`. Throws `kIo`, and as `read_parameters`.
[[nodiscard]] FlatBuffer load_parameters(const std::string& directory, const ParameterLayout& layout);
/// The same of weights that others have written, into a buffer of its own, which takes no memory before the tensors
/// have been found to fit: a layout that a config alone describes may be of any size. Half precision and bfloat16 are
/// widened. A parameter that is missing is read from a copy of it that is there.
[[nodiscard]] FlatBuffer read_weights(std::span<const StoredTensor> tensors, const std::string& path,
                                      const ParameterLayout& layout, const ParametersInFile& there = {});

}  // namespace millrace
