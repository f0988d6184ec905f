// What the comment of an option says of its default is the default.

#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/whole_file.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/definition/method_list.h"
#include "tests/support/places.h"

namespace millrace::option_defaults_test {
namespace {

// The comment of each member of a struct, by its name.
std::map<std::string, std::string> comments_in(const std::string& header, const std::string& name) {
  const std::string all = read_whole_file(test::source_path(header));
  const std::string head = fmt::format("\nstruct {} {{\n", name);
  const size_t found_at = all.find(head);
  if (found_at == std::string::npos) throw std::runtime_error(fmt::format("no struct {} in {}", name, header));
  const size_t begin = found_at + head.size();
  std::istringstream lines(all.substr(begin, all.find("\n};", begin) - begin));
  std::map<std::string, std::string> comments;
  std::string comment;
  std::string code;
  std::string member;
  for (std::string line; std::getline(lines, line);) {
    const size_t slashes = line.find("///");
    const bool is_after = slashes != std::string::npos && line[slashes + 3] == '<';
    const std::string before = line.substr(0, line.find("//"));
    const bool has_code = before.find_first_not_of(' ') != std::string::npos;
    if (slashes != std::string::npos) {
      (is_after ? comments[""] : comment) += line.substr(slashes + (is_after ? 4 : 3));
    }
    if (has_code) code += before;
    if (code.find(';') == std::string::npos) continue;
    std::smatch found;
    if (std::regex_match(code, found, std::regex("[a-zA-Z0-9_:<>, ]+ ([a-z_]+)( = [^;]*)?; *"))) {
      member = found[1];
      comments[member] = comment + comments[""];
    }
    comments.erase("");
    comment.clear();
    code.clear();
  }
  return comments;
}

// `0.08`, `3/4`.
double number_in(const std::string& text) {
  const size_t slash = text.find('/');
  return slash == std::string::npos ? std::stod(text) : std::stod(text) / std::stod(text.substr(slash + 1));
}

// A number with a unit, a power, `kName`, `text`, or as it is; up to what follows in words.
std::string value_in(const std::string& comment) {
  const size_t at = comment.rfind("Default: ");
  if (at == std::string::npos) return "nothing";
  std::string text = comment.substr(at + 9);
  if (text[0] == '`') return text.substr(1, text.find('`', 1) - 1);
  text = text.substr(0, text.find_first_of(",;"));
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  std::smatch parts;
  if (std::regex_match(text, parts, std::regex("([0-9]+) ([KMG])iB"))) {
    const int shift = parts[2] == "K" ? 10 : parts[2] == "M" ? 20 : 30;
    return std::to_string(std::stoll(parts[1]) << shift);
  }
  if (std::regex_match(text, parts, std::regex("2\\^([0-9]+)"))) return std::to_string(1LL << std::stoi(parts[1]));
  if (std::regex_match(text, parts, std::regex("([0-9./]+) to ([0-9./]+)"))) {
    return text_of_value(std::pair(number_in(parts[1]), number_in(parts[2])), /*all=*/true);
  }
  if (std::regex_match(text, parts, std::regex("k([A-Z][A-Za-z0-9]*)"))) return lower_case(parts[1].str());
  if (text.starts_with("none")) return "none";
  return text == "\"\"" ? "none" : text;
}

std::string without_quotes(std::string text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  if (text.size() > 2 && text.ends_with(".0")) text.resize(text.size() - 2);
  return text.empty() || text == "[]" || text == "empty" ? "none" : text;
}

std::set<std::string_view>& compared_structs() {
  static std::set<std::string_view> names;
  return names;
}

template <typename Options>
void expect_defaults(const std::string& header, const std::string& name) {
  const std::map<std::string, std::string> comments = comments_in(header, name);
  const Options defaults{};
  size_t compared = 0;
  description_of<Options>().for_each([&]<typename F>(F) {
    const std::string member(F::kName);
    const auto comment = comments.find(member);
    ASSERT_NE(comment, comments.end()) << name << "." << member;
    ++compared;
    // Without a default, or with those of its own fields.
    if (F::kRequired || Described<typename F::Value>) return;
    EXPECT_EQ(without_quotes(value_in(comment->second)), without_quotes(text_of_value(F::of(defaults), /*all=*/true)))
        << name << "." << member << ":" << comment->second;
  });
  EXPECT_GT(compared, 0U);
  compared_structs().insert(description_of<Options>().name);
}

// Each struct of options that a method takes, also within others, must have been compared.
template <typename Of>
void expect_compared() {
  if constexpr (description::kIsA<std::optional, Of> || description::kIsA<std::vector, Of>) {
    expect_compared<typename Of::value_type>();
  } else if constexpr (Described<Of>) {
    const std::string_view name = description_of<Of>().name;
    EXPECT_TRUE(!name.ends_with("Options") || compared_structs().contains(name)) << name;
    description_of<Of>().for_each([]<typename F>(F) { expect_compared<typename F::Value>(); });
  }
}
template <typename... Of, auto... kCalled>
void expect_compared(definition::MethodList<definition::Method<Of, kCalled>...>) {
  (expect_compared<Of>(), ...);
}

TEST(OptionDefaults, AreWhatTheCommentsSay) {
  expect_defaults<AugmentImagesOptions>("ops/images/augment_images.h", "AugmentImagesOptions");
  expect_defaults<BatchOptions>("ops/batch/batch.h", "BatchOptions");
  expect_defaults<BucketOptions>("ops/batch/bucket_by_sequence_length.h", "BucketOptions");
  expect_defaults<CacheOptions>("ops/keep/cache.h", "CacheOptions");
  expect_defaults<ChooseOptions>("ops/combine/choose_from_datasets.h", "ChooseOptions");
  expect_defaults<CorruptSpansOptions>("ops/tokens/corrupt_spans.h", "CorruptSpansOptions");
  expect_defaults<CropOptions>("ops/images/crop.h", "CropOptions");
  expect_defaults<CsvColumn>("ops/parse/parse_csv.h", "CsvColumn");
  expect_defaults<CsvFormat>("formats/csv/format.h", "CsvFormat");
  expect_defaults<CutmixOptions>("ops/images/cutmix.h", "CutmixOptions");
  expect_defaults<DamagePolicy>("formats/records/damage_policy.h", "DamagePolicy");
  expect_defaults<DecodeImageOptions>("ops/images/decode_image.h", "DecodeImageOptions");
  expect_defaults<DecodeRawOptions>("ops/parse/decode_raw.h", "DecodeRawOptions");
  expect_defaults<FeaturePadding>("ops/batch/padding.h", "FeaturePadding");
  expect_defaults<FilesOptions>("ops/sources/files.h", "FilesOptions");
  expect_defaults<FileReadOptions>("ops/sources/file_source.h", "FileReadOptions");
  expect_defaults<FixedLengthFormat>("formats/fixed_length/reader.h", "FixedLengthFormat");
  expect_defaults<GlobalShuffleOptions>("ops/sources/global_shuffle.h", "GlobalShuffleOptions");
  expect_defaults<ImageCrop>("ops/images/crop_window.h", "ImageCrop");
  expect_defaults<InterleaveOptions>("ops/combine/interleave.h", "InterleaveOptions");
  expect_defaults<MaskSpans>("ops/tokens/mask_choice.h", "MaskSpans");
  expect_defaults<MaskTokensOptions>("ops/tokens/mask_tokens.h", "MaskTokensOptions");
  expect_defaults<MixupOptions>("ops/images/mixup.h", "MixupOptions");
  expect_defaults<NormalizeOptions>("ops/images/normalize.h", "NormalizeOptions");
  expect_defaults<OneHotOptions>("ops/features/one_hot.h", "OneHotOptions");
  expect_defaults<PackOptions>("ops/tokens/pack.h", "PackOptions");
  expect_defaults<PadOptions>("ops/images/pad.h", "PadOptions");
  expect_defaults<PaddedBatchOptions>("ops/batch/padding.h", "PaddedBatchOptions");
  expect_defaults<ParseTensorOptions>("ops/parse/parse_tensor.h", "ParseTensorOptions");
  expect_defaults<RaggedBatchOptions>("ops/batch/ragged_batch.h", "RaggedBatchOptions");
  expect_defaults<RejectionResampleOptions>("ops/flow/rejection_resample.h", "RejectionResampleOptions");
  expect_defaults<ResizeOptions>("ops/images/resize.h", "ResizeOptions");
  expect_defaults<SampleOptions>("ops/combine/sample_from_datasets.h", "SampleOptions");
  expect_defaults<ShuffleOptions>("ops/flow/shuffle.h", "ShuffleOptions");
  expect_defaults<TfrecordOptions>("ops/sources/tfrecord.h", "TfrecordOptions");
  expect_defaults<TruncateOptions>("ops/tokens/truncate.h", "TruncateOptions");
  expect_defaults<TruncatePairOptions>("ops/tokens/truncate_pair.h", "TruncatePairOptions");
  expect_defaults<WindowOptions>("ops/batch/window.h", "WindowOptions");
  expect_compared(definition::Methods());
}

}  // namespace
}  // namespace millrace::option_defaults_test
