#pragma once

#include <string>
#include <vector>

#include "millrace/trainer/models/vgg.h"

namespace millrace::test {

/// The classes of `draw_pictures`.
inline const std::vector<std::string> kPictureClasses = {"blank", "dots", "stripes"};

/// Draws `of_each` pictures of each class into folders of these names, JPEGs and PNGs in turns, some of them in folders
/// below: sizes, colours and noise differ.
void draw_pictures(const std::string& folder, int of_each);

/// A network that sees them within moments.
Vgg small_network();

/// Prepares their features with `small_network` written beside `out`.
std::vector<std::string> small_preparation(const std::string& pictures, const std::string& network,
                                           const std::string& out);
/// Trains a head on them.
std::vector<std::string> small_training(const std::string& set, const std::string& out);

}  // namespace millrace::test
