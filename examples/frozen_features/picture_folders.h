#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace millrace {

struct PictureFoldersOptions {
  std::string folder = {};                ///< has a folder for each class
  std::vector<std::string> without = {};  ///< folders in it that are no classes. Default: none
  int64_t classes = 0;                    ///< so many, those with the most pictures. Default: 0, all
  int64_t pictures_per_class = 0;         ///< so many of each, drawn. Default: 0, all
  double test_share = 0.2;                ///< of each class, at least one picture. Default: 0.2
  uint64_t seed = 42;                     ///< of what is drawn. Default: 42
};

/// A picture of a set.
struct ChosenPicture {
  std::string path = {};  ///< below the folder of the classes
  int64_t label = 0;      ///< the number of its class
  bool test = false;
};

/// What was chosen of a folder.
struct ChosenPictures {
  std::vector<std::string> classes = {};  ///< their folders' names, sorted by their bytes
  /// Those to train on, then those to test on, each in an order that is drawn.
  std::vector<ChosenPicture> pictures = {};
  std::map<std::string, int64_t> left_out = {};  ///< why, and how many files
};

/// Chooses the pictures of a set: files `*.png`, `*.jpg` and `*.jpeg` (in any case) in the folder of a class and
/// below. Left out are symbolic links; names that are no UTF-8; of files of one class with the same bytes all but the
/// first by its path; and files whose bytes are in several classes, from all of them: nobody knows which one they are
/// of. What is drawn is a pure function of seed and path, so a file more or less moves no other one from one part to
/// the other but at its edge. Throws `kIo` for what cannot be read; `kInvalidArgument` for a class without pictures or
/// with only one, fewer classes than asked for, a name of `without` that is no folder, and a name of a class that is no
/// UTF-8.
[[nodiscard]] ChosenPictures choose_pictures(const PictureFoldersOptions& options);

}  // namespace millrace
