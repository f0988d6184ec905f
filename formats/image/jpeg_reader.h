#pragma once

#include <memory>

#include "millrace/formats/image/picture_reader.h"

namespace millrace {

// Reads JPEGs with libjpeg-turbo.
std::unique_ptr<PictureReader> make_jpeg_reader();

}  // namespace millrace
