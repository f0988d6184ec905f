#include "millrace/formats/safetensors/tensor_name.h"

#include <cstddef>

namespace millrace {

bool has_control_character(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    // The others are two bytes in UTF-8.
    if (byte == 0xC2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xA0) return true;
  }
  return false;
}

}  // namespace millrace
