#pragma once

#include <map>
#include <span>
#include <string>

#include "millrace/formats/safetensors/tensor.h"

namespace millrace {

/// Writes tensors as a safetensors file, in the order given; the header is padded so that the tensors begin at a
/// multiple of 8 bytes. The file gets its name when it is whole and on the disk: one that has the name is never damaged
/// by a crash. `metadata`: strings for the header; `{"format", "pt"}` is what PyTorch's loaders look for. Throws
/// `kInvalidArgument` for what `SafetensorsFile` would refuse: a name that occurs twice, is `__metadata__`, no UTF-8,
/// or has control characters, metadata that is no UTF-8, a negative size in a shape, and bytes that do not fit it;
/// `kIo` naming the file when it cannot be written.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace millrace
