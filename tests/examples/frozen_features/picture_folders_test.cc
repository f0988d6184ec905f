#include "examples/frozen_features/picture_folders.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_models.h"

namespace millrace::picture_folders_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing_models::thrown_by;

// Files by their bytes, whose content nobody looks at.
class PictureFolders : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& bytes) const {
    fs::create_directories(fs::path(folder_.path(path)).parent_path());
    test::write_file(folder_.path(path), bytes);
  }
  void write_class(const std::string& name, int count) const {
    for (int i = 0; i < count; ++i) write(name + "/" + std::to_string(i) + ".png", name + std::to_string(i));
  }
  PictureFoldersOptions options() const { return {.folder = folder_.path("")}; }
  std::string refusal(const PictureFoldersOptions& options) const {
    return thrown_by([&] { (void)choose_pictures(options); });
  }

  const test::TemporaryFolder folder_;
};

// Their places by path.
std::map<std::string, bool> parts_of(const ChosenPictures& chosen) {
  std::map<std::string, bool> parts;
  for (const ChosenPicture& picture : chosen.pictures) parts[picture.path] = picture.test;
  return parts;
}

TEST_F(PictureFolders, TakesThePicturesInTheFoldersOfClassesAndBelow) {
  write("b/1.png", "1");
  write("b/below/deeper/2.JPEG", "2");
  write("b/notes.txt", "3");
  write("a/1.jpg", "4");
  write("a/2.PNG", "5");
  write("a/3.gif", "6");
  write("readme.png", "7");
  fs::create_symlink(folder_.path("a/1.jpg"), folder_.path("b/link.jpg"));
  fs::create_directory_symlink(folder_.path("a"), folder_.path("b/folder"));
  fs::create_directory_symlink(folder_.path("a"), folder_.path("c"));
  const ChosenPictures chosen = choose_pictures(options());
  EXPECT_THAT(chosen.classes, ElementsAre("a", "b"));
  std::map<std::string, int64_t> labels;
  for (const ChosenPicture& picture : chosen.pictures) labels[picture.path] = picture.label;
  EXPECT_THAT(labels, ElementsAre(Pair("a/1.jpg", 0), Pair("a/2.PNG", 0), Pair("b/1.png", 1),
                                  Pair("b/below/deeper/2.JPEG", 1)));
  EXPECT_THAT(chosen.left_out, ElementsAre(Pair("beside the folders of the classes", 1),
                                           Pair("no .png, .jpg or .jpeg", 2), Pair("symbolic links", 3)));
}

TEST_F(PictureFolders, LeavesOutWhatIsEqual) {
  write_class("a", 3);
  write_class("b", 3);
  write("a/again.png", "a1");
  write("a/9/once_more.png", "a1");
  write("a/of_both.png", "both");
  write("b/of_both.png", "both");
  write("b/of_both_too.png", "both");
  const ChosenPictures chosen = choose_pictures(options());
  std::set<std::string> paths;
  for (const ChosenPicture& picture : chosen.pictures) paths.insert(picture.path);
  EXPECT_THAT(paths, ElementsAre("a/0.png", "a/1.png", "a/2.png", "b/0.png", "b/1.png", "b/2.png"));
  EXPECT_THAT(chosen.left_out, ElementsAre(Pair("equal to a file of another class", 3),
                                           Pair("equal to another file of their class", 2)));
}

TEST_F(PictureFolders, TakesTheLargestClassesAndDrawsOfEach) {
  write_class("few", 7);
  write_class("many", 30);
  write_class("more", 40);
  write_class("unsorted", 90);
  PictureFoldersOptions some = options();
  some.without = {"unsorted"};
  some.classes = 2;
  some.pictures_per_class = 20;
  some.test_share = 0.25;
  const ChosenPictures chosen = choose_pictures(some);
  EXPECT_THAT(chosen.classes, ElementsAre("many", "more"));
  EXPECT_THAT(chosen.left_out, ElementsAre(Pair("not drawn", 30), Pair("of smaller classes", 7)));
  ASSERT_EQ(chosen.pictures.size(), 40U);
  std::map<std::pair<int64_t, bool>, int> counts;
  for (size_t i = 0; i < chosen.pictures.size(); ++i) {
    EXPECT_EQ(chosen.pictures[i].test, i >= 30);
    ++counts[{chosen.pictures[i].label, chosen.pictures[i].test}];
  }
  EXPECT_THAT(counts, ElementsAre(Pair(Pair(0, false), 15), Pair(Pair(0, true), 5), Pair(Pair(1, false), 15),
                                  Pair(Pair(1, true), 5)));
  // Classes are mixed.
  int changes = 0;
  for (size_t i = 1; i < 30; ++i) changes += chosen.pictures[i].label != chosen.pictures[i - 1].label ? 1 : 0;
  EXPECT_GT(changes, 5);

  some.seed = 43;
  EXPECT_NE(parts_of(choose_pictures(some)), parts_of(chosen));
  some.seed = 42;
  EXPECT_EQ(parts_of(choose_pictures(some)), parts_of(chosen));
}

TEST_F(PictureFolders, MovesNoPictureFromOnePartToTheOtherButAtTheEdge) {
  write_class("a", 50);
  write_class("b", 50);
  const std::map<std::string, bool> before = parts_of(choose_pictures(options()));
  for (int more = 0; more < 5; ++more) {
    write("a/more" + std::to_string(more) + ".png", "more" + std::to_string(more));
    const std::map<std::string, bool> after = parts_of(choose_pictures(options()));
    int moved = 0;
    for (const auto& [path, test] : before) moved += after.at(path) != test ? 1 : 0;
    EXPECT_LE(moved, 1 + more);
  }
}

TEST_F(PictureFolders, LeavesAPictureOnEitherSide) {
  write_class("a", 2);
  write_class("b", 2);
  for (const double share : {0.0, 0.5, 1.0}) {
    PictureFoldersOptions some = options();
    some.test_share = share;
    const ChosenPictures chosen = choose_pictures(some);
    EXPECT_EQ(std::ranges::count(chosen.pictures, true, &ChosenPicture::test), 2) << share;
  }
}

TEST_F(PictureFolders, RefusesWhatIsNoSetOfClasses) {
  EXPECT_THAT(refusal(options()), HasSubstr("has 0 classes; at least 2"));
  write_class("a", 3);
  EXPECT_THAT(refusal(options()), HasSubstr("has 1 classes; at least 2"));
  fs::create_directory(folder_.path("b"));
  write("b/notes.txt", "");
  EXPECT_THAT(refusal(options()), HasSubstr("class 'b' has no picture that is taken"));
  write_class("b", 1);
  EXPECT_THAT(refusal(options()), HasSubstr("class 'b' has one picture; 2 are needed"));
  write_class("b", 2);
  EXPECT_THAT(choose_pictures(options()).left_out, ElementsAre(Pair("no .png, .jpg or .jpeg", 1)));
  PictureFoldersOptions three = options();
  three.classes = 3;
  EXPECT_THAT(refusal(three), HasSubstr("has 2 folders with pictures that are taken, 3 classes are asked for"));
  PictureFoldersOptions without = options();
  without.without = {"c"};
  EXPECT_THAT(refusal(without), HasSubstr("there is no folder 'c' in"));
  PictureFoldersOptions none = options();
  none.folder = folder_.path("none");
  EXPECT_THAT(refusal(none), HasSubstr("io: cannot look for pictures"));
}

}  // namespace
}  // namespace millrace::picture_folders_test
