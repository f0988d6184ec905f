#pragma once

#include <string_view>

#include "millrace/formats/image/image.h"

namespace millrace {

/// The format of a picture by its first bytes (up to 16). Throws `parse` for another one, which it names where it knows
/// it, and `truncated` where there are too few bytes to tell.
[[nodiscard]] ImageFormat recognize_image(std::string_view bytes);

}  // namespace millrace
