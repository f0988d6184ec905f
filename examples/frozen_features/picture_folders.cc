#include "examples/frozen_features/picture_folders.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/formats/text/lower_case.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

// A file that may be chosen.
struct FoundPicture {
  std::string path;  // below the folder
  std::string of;    // the name of its class
  uint64_t bytes = 0;
};

struct FoundPictures {
  std::vector<std::string> classes;
  std::vector<FoundPicture> pictures;
  std::map<std::string, int64_t> left_out;
};

bool has_name_of_picture(const fs::path& path) {
  const std::string extension = lower_case(path.extension().string());
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

// All below the folders of the classes.
FoundPictures find_pictures(const PictureFoldersOptions& options) try {
  FoundPictures found;
  for (const fs::directory_entry& entry : fs::directory_iterator(options.folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink()) {
      ++found.left_out["symbolic links"];
    } else if (!entry.is_directory()) {
      ++found.left_out["beside the folders of the classes"];
    } else if (std::ranges::find(options.without, name) == options.without.end()) {
      if (!is_valid_utf8(name)) refuse(fmt::format("the name of the class '{}' is no UTF-8", name));
      found.classes.push_back(name);
    }
  }
  for (const std::string& name : options.without) {
    if (!fs::is_directory(fs::path(options.folder) / name)) {
      refuse(fmt::format("there is no folder '{}' in '{}' to do without", name, options.folder));
    }
  }
  std::ranges::sort(found.classes);
  for (const std::string& name : found.classes) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(options.folder) / name)) {
      if (entry.is_symlink()) {
        ++found.left_out["symbolic links"];
      } else if (entry.is_directory()) {
        continue;
      } else if (!entry.is_regular_file() || !has_name_of_picture(entry.path())) {
        ++found.left_out["no .png, .jpg or .jpeg"];
      } else if (!is_valid_utf8(entry.path().string())) {
        ++found.left_out["a name that is no UTF-8"];
      } else {
        found.pictures.push_back(
            {.path = entry.path().lexically_relative(options.folder).string(), .of = name, .bytes = entry.file_size()});
      }
    }
  }
  std::ranges::sort(found.pictures, {}, &FoundPicture::path);
  return found;
} catch (const fs::filesystem_error& error) {
  throw ErrorException({.code = ErrorCode::kIo,
                        .message = fmt::format("cannot look for pictures: {}", error.code().message()),
                        .shard = error.path1().string()});
}

// Only files of one size are read.
void leave_out_equal_files(const std::string& folder, FoundPictures& found) {
  using Content = std::tuple<uint64_t, uint64_t, uint64_t>;  // size and digest
  std::map<uint64_t, int64_t> of_size;
  for (const FoundPicture& picture : found.pictures) ++of_size[picture.bytes];
  std::map<Content, std::vector<size_t>> same;
  for (size_t i = 0; i < found.pictures.size(); ++i) {
    const FoundPicture& picture = found.pictures[i];
    if (of_size[picture.bytes] == 1) continue;
    const std::string bytes = read_whole_file((fs::path(folder) / picture.path).string(), "picture");
    const XXH128_hash_t digest = XXH3_128bits(bytes.data(), bytes.size());
    same[{picture.bytes, digest.low64, digest.high64}].push_back(i);
  }
  std::vector<char> leaves(found.pictures.size());
  for (const auto& [content, places] : same) {
    const std::string& first = found.pictures[places.front()].of;
    const bool is_of_one = std::ranges::all_of(places, [&](size_t place) { return found.pictures[place].of == first; });
    for (size_t i = is_of_one ? 1 : 0; i < places.size(); ++i) {
      leaves[places[i]] = 1;
      ++found.left_out[is_of_one ? "equal to another file of their class" : "equal to a file of another class"];
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i] == 0) std::swap(found.pictures[kept++], found.pictures[i]);
  }
  found.pictures.resize(kept);
}

// The names of the classes with the most pictures, sorted.
std::vector<std::string> largest_classes(const std::map<std::string, int64_t>& pictures_of, int64_t most,
                                         const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> by_size;
  for (const auto& [name, count] : pictures_of) {
    if (most == 0 && count == 0) refuse(fmt::format("class '{}' has no picture that is taken", name));
    if (count > 0) by_size.emplace_back(-count, name);
  }
  std::ranges::sort(by_size);
  if (std::ssize(by_size) < most) {
    refuse(fmt::format("'{}' has {} folders with pictures that are taken, {} classes are asked for", folder,
                       by_size.size(), most));
  }
  if (most > 0) by_size.resize(static_cast<size_t>(most));
  std::vector<std::string> names;
  std::ranges::transform(by_size, std::back_inserter(names), &std::pair<int64_t, std::string>::second);
  std::ranges::sort(names);
  if (names.size() < 2) refuse(fmt::format("'{}' has {} classes; at least 2 are needed", folder, names.size()));
  return names;
}

}  // namespace

ChosenPictures choose_pictures(const PictureFoldersOptions& options) {
  FoundPictures found = find_pictures(options);
  leave_out_equal_files(options.folder, found);
  std::map<std::string, int64_t> pictures_of;
  for (const std::string& name : found.classes) pictures_of[name] = 0;
  for (const FoundPicture& picture : found.pictures) ++pictures_of[picture.of];

  // By what is drawn for each: the first ones of a class are to test on, the next ones to train on.
  const CounterRng rng(options.seed, operator_id("pictures"));
  ChosenPictures chosen{.classes = largest_classes(pictures_of, options.classes, options.folder)};
  std::map<std::string, int64_t> label_of;
  for (const std::string& name : chosen.classes) label_of[name] = std::ssize(label_of);
  std::vector<std::pair<uint64_t, const FoundPicture*>> order;
  for (const FoundPicture& picture : found.pictures) order.emplace_back(rng.bits(operator_id(picture.path)), &picture);
  std::ranges::stable_sort(order, {}, [](const auto& drawn) { return drawn.first; });
  std::vector<ChosenPicture> test;
  std::vector<int64_t> taken(chosen.classes.size());
  for (const auto& [drawn, picture] : order) {
    const auto label = label_of.find(picture->of);
    if (label == label_of.end()) {
      ++found.left_out["of smaller classes"];
      continue;
    }
    const int64_t most = options.pictures_per_class;
    const int64_t of_class = most == 0 ? pictures_of[picture->of] : std::min(most, pictures_of[picture->of]);
    if (of_class < 2) refuse(fmt::format("class '{}' has one picture; 2 are needed at least", picture->of));
    int64_t& place = taken[static_cast<size_t>(label->second)];
    if (place == of_class) {
      ++found.left_out["not drawn"];
      continue;
    }
    const int64_t of_test =
        std::clamp<int64_t>(std::llround(options.test_share * static_cast<double>(of_class)), 1, of_class - 1);
    const bool is_test = place++ < of_test;
    (is_test ? test : chosen.pictures).push_back({.path = picture->path, .label = label->second, .test = is_test});
  }
  chosen.pictures.insert(chosen.pictures.end(), test.begin(), test.end());
  chosen.left_out = std::move(found.left_out);
  return chosen;
}

}  // namespace millrace
