#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/safetensors/reader.h"
#include "trainer/parameters.h"

namespace millrace {

/// A flat buffer and how its tensors are called in a file: the parameter's name and `suffix` behind it.
struct ParameterBuffer {
  std::span<float> values;  ///< `[layout.size()]`
  std::string suffix;       ///< Default: empty
};

/// The tensors of a flat buffer by name, in order of registration, then second names; they point into the buffer.
/// `included`: by parameter, 0 for those that are left out; empty: none is.
std::vector<NamedTensor> parameter_tensors(const ParameterLayout& layout, std::span<const float> values,
                                           const std::string& suffix = "", std::span<const uint8_t> included = {});

/// Reads each parameter of `layout` into each of `buffers` from a safetensors file, of which `path` is the name for
/// messages. Throws `kInvalidArgument` with the names that are missing, of another type or shape, or unexpected
/// (neither a parameter's nor in `also_there`), and when the values under a second name differ from the parameter's;
/// the buffers are then partly written. A second name may be missing. `included` as above.
void read_parameters(const SafetensorsFile& file, const std::string& path, const ParameterLayout& layout,
                     std::span<const ParameterBuffer> buffers, std::span<const std::string> also_there = {},
                     std::span<const uint8_t> included = {});

}  // namespace millrace
