#pragma once

#include <memory>

#include "millrace/formats/image/picture_reader.h"

namespace millrace {

// Reads PNGs with libpng.
std::unique_ptr<PictureReader> make_png_reader();

}  // namespace millrace
