// Every operator, each with the parameters that random graphs and the checks of single operators draw for it. A new
// operator joins with one line, which adds it and its model to a TwinDataset.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tests/contract/graph.h"

namespace millrace::test {
namespace {

using Twin = TwinDataset;

// How large a graph's streams may become.
constexpr int64_t kMostElements = 600;

bool always(const Twin&) { return true; }
bool is_finite(const Twin& in) { return !in.infinite(); }
bool is_records(const Twin& in) {
  // Lines and words are no Examples.
  if (in.has("text_lines") || in.has("fixed_length_records")) return false;
  return in.schema().size() == 1 && in.schema().find("record") == 0 && in.schema()[0].dtype == DType::kBytes &&
         in.rank() <= 1;
}
bool is_single_records(const Twin& in) { return is_records(in) && in.rank() == 0; }
bool has_numbers(const Twin& in) { return !in.features_of(std::nullopt).empty(); }
bool has_integers(const Twin& in) {
  return !in.features_of(DType::kInt64).empty() || !in.features_of(DType::kInt32).empty();
}
bool has_floats(const Twin& in) { return !in.features_of(DType::kFloat32).empty(); }
bool has_indices(const Twin& in) {
  const std::vector<FeatureSpec>& features = in.schema().features();
  return in.rank() <= 2 && std::any_of(features.begin(), features.end(), [](const FeatureSpec& feature) {
           return (feature.dtype == DType::kInt64 || feature.dtype == DType::kInt32) && !feature.is_ragged();
         });
}
bool has_int64(const Twin& in) { return !in.features_of(DType::kInt64).empty(); }
bool has_several_features(const Twin& in) { return in.schema().size() >= 2; }
bool can_batch(const Twin& in) { return in.rank() <= 2; }
bool can_pad(const Twin& in) { return can_batch(in) && !in.is_ragged(); }
bool can_unbatch(const Twin& in) { return !in.infinite() && in.lowest_rank() >= 1 && in.most() <= 9 * kMostElements; }
bool can_repeat(const Twin& in) { return !in.infinite() && in.most() * 3 <= kMostElements; }
bool can_ignore(const Twin& in) { return !in.was_infinite(); }
bool can_mask(const Twin& in) {
  const int tokens = in.schema().find("tokens");
  if (tokens < 0 || in.schema().find("labels") >= 0) return false;
  const FeatureSpec& ids = in.schema()[static_cast<size_t>(tokens)];
  if (ids.is_ragged() || ids.dtype == DType::kFloat32 || ids.dtype == DType::kUint8 || ids.shape.empty() ||
      ids.shape.size() > 2)
    return false;
  const int mask = in.schema().find("mask");
  if (mask < 0) return true;
  const FeatureSpec& attention = in.schema()[static_cast<size_t>(mask)];
  return attention.dtype == DType::kInt64 && attention.shape == ids.shape;
}

// That each feature of numbers can have.
int64_t padding_value(const Twin& in, Picks& p) { return p.between(in.features_of(DType::kUint8).empty() ? -3 : 0, 3); }

std::vector<std::string> integer_features(const Twin& in) {
  std::vector<std::string> names = in.features_of(DType::kInt64);
  for (const std::string& name : in.features_of(DType::kInt32)) names.push_back(name);
  return names;
}

// Names of features, in any order; `most` of them, or fewer.
std::vector<std::string> some_features(const Twin& in, Picks& p, size_t most) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : in.schema().features()) {
    names.insert(names.begin() + p.between(0, static_cast<int64_t>(names.size())), feature.name);
  }
  names.resize(static_cast<size_t>(p.between(1, static_cast<int64_t>(most))));
  return names;
}

const std::vector<std::string> kLong{"long-0", "long-1"};

Twin read(const std::vector<std::string>& files, Picks& p, const Weave& weave, const DamagePolicy& damage = {}) {
  std::vector<std::string> names(static_cast<size_t>(p.between(1, 5)));
  for (std::string& name : names) name = p.of(files);
  if (p.chance(30)) names.push_back(p.of(kLong));
  // One file twice is one too many for some numbers, and says nothing more.
  std::vector<std::string> distinct;
  for (const std::string& name : names) {
    if (std::count(distinct.begin(), distinct.end(), name) == 0) distinct.push_back(name);
  }
  TfrecordOptions options{.damage = damage};
  options.cycle_length = static_cast<size_t>(p.between(1, 5));
  options.block_length = static_cast<size_t>(p.between(1, 4));
  options.shuffle_shards = p.chance(2);
  if (options.shuffle_shards) options.seed = static_cast<uint64_t>(p.between(0, 9));
  return Twin::tfrecord(distinct, options, weave);
}

// Files of TextFiles: `kind` is the beginning of their names.
std::vector<std::string> text_files(const std::string& kind, Picks& p) {
  std::vector<std::string> names;
  for (const char* number : {"0", "1"}) {
    if (p.chance(2)) names.push_back(kind + number);
  }
  if (p.chance(20)) names.push_back(kind + "2");
  if (names.empty() || p.chance(6)) names.push_back(kind + (p.chance(3) ? "3" : "0"));
  if (names.size() > 1 && names.front() == names.back()) names.pop_back();
  return names;
}

FileReadOptions file_options(Picks& p) {
  FileReadOptions options;
  options.cycle_length = static_cast<size_t>(p.between(1, 3));
  options.block_length = static_cast<size_t>(p.between(1, 4));
  options.shuffle_shards = p.chance(3);
  if (options.shuffle_shards) options.seed = static_cast<uint64_t>(p.between(0, 9));
  options.compression = static_cast<Compression>(p.between(0, 3));
  if (p.chance(3)) options.damage.action = DamagePolicy::kSkip;
  if (options.damage.action == DamagePolicy::kSkip && p.chance(3)) options.damage.max_records = p.between(0, 2);
  return options;
}

Twin global_shuffle(Picks& p, const Weave& weave) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < 4; ++i) {
    if (p.chance(2)) names.push_back(fmt::format("indexed-{}", i));
  }
  if (names.empty()) names.push_back("indexed-0");
  if (p.chance(2)) names.push_back("indexed-5");
  if (p.chance(30)) names.push_back("indexed-4");
  GlobalShuffleOptions options;
  options.seed = static_cast<uint64_t>(p.between(0, 9));
  options.reshuffle_each_iteration = !p.chance(4);
  options.window = p.between(1, 40);
  options.merge_gap = p.between(0, 2) * 300;
  options.reads_in_flight = p.between(8, 40);
  if (p.chance(2)) options.damage.action = DamagePolicy::kSkip;
  if (options.damage.action == DamagePolicy::kSkip && p.chance(3)) options.damage.max_records = p.between(0, 2);
  return Twin::global_shuffle(names, options, weave);
}

const std::vector<std::string> kPlain{"plain-0", "plain-1", "plain-2", "plain-3", "plain-4", "plain-5"};
const std::vector<std::string> kCompressed{"zlib-0", "gzip-0", "zstd-0", "zlib-1", "gzip-1", "zstd-1", "zlib-2",
                                           "gzip-2", "zstd-2", "zlib-3", "gzip-3", "zstd-3", "plain-1"};
const std::vector<std::string> kDamaged{"damaged-0", "plain-4", "damaged-1", "gzip-2"};
const std::vector<std::string> kWithErrors{"odd-0", "damaged-0", "odd-1", "plain-4"};

// One to four inputs of one schema: one more of the first kind where another was drawn.
std::vector<Twin> inputs_alike(Picks& p, const Weave& weave) {
  std::vector<Twin> inputs{draw_nested(p, weave)};
  for (int64_t more = p.between(0, 3); more > 0; --more) {
    Twin input = draw_nested(p, weave);
    inputs.push_back(input.schema() == inputs[0].schema() ? std::move(input) : inputs[0]);
  }
  return inputs;
}

Twin interleave(Picks& p, const Weave& weave) {
  const std::vector<Twin> inputs = inputs_alike(p, weave);
  InterleaveOptions options;
  options.cycle_length = static_cast<size_t>(p.between(1, 4));
  options.block_length = static_cast<size_t>(p.between(1, 4));
  return Twin::interleave(inputs, options, weave);
}

Twin concatenate(Picks& p, const Weave& weave) { return Twin::concatenate(inputs_alike(p, weave), weave); }

Twin zip(Picks& p, const Weave& weave) {
  std::vector<Twin> inputs{draw_nested(p, weave)};
  const auto taken = [&](const std::string& name) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Twin& in) { return in.schema().find(name) >= 0; });
  };
  for (int64_t more = p.between(0, 2); more > 0; --more) {
    Twin input = draw_nested(p, weave);
    const std::vector<FeatureSpec>& features = input.schema().features();
    if (std::any_of(features.begin(), features.end(), [&](const FeatureSpec& f) { return taken(f.name); })) {
      std::string name = "side";
      while (taken(name)) name += '\'';
      input = Twin::range(0, p.between(0, 60), 1, weave, name);
      if (p.chance(2)) input = input.map_fail_rows(5, p.between(0, 4));
    }
    inputs.push_back(std::move(input));
  }
  return Twin::zip(inputs, weave);
}

Twin choose_from_datasets(Picks& p, const Weave& weave) {
  const std::vector<Twin> inputs = inputs_alike(p, weave);
  // Runs of one number and changes at each element; now and then a number too many, and errors.
  Twin choices = Twin::range(0, p.between(0, 80), 1, weave).multiply("value", p.between(1, 5));
  const auto num_inputs = static_cast<int64_t>(inputs.size());
  choices = choices.modulo("value", num_inputs + (p.chance(5) ? 1 : 0));
  if (p.chance(3)) choices = choices.shuffle(p.between(1, 9), {.seed = 3});
  if (p.chance(4)) choices = choices.map_fail_rows(7, p.between(0, 6));
  return Twin::choose_from_datasets(inputs, choices, p.chance(2), weave);
}

Twin sample_from_datasets(Picks& p, const Weave& weave) {
  const std::vector<Twin> inputs = inputs_alike(p, weave);
  SampleOptions options;
  for (size_t i = 0; i < inputs.size(); ++i) {
    options.weights.push_back(0.25 * static_cast<double>(p.between(i == 0 ? 1 : 0, 6)));
  }
  options.seed = static_cast<uint64_t>(p.between(0, 9));
  options.stop_on_empty = p.chance(2);
  options.rerandomize_each_iteration = !p.chance(4);
  return Twin::sample_from_datasets(inputs, options, weave);
}

Twin parse_example(const Twin& in, Picks& p) {
  static const std::vector<std::vector<std::string>> kFeatures{
      {"id", "tokens"}, {"tokens", "mask"},       {"tokens32", "mask", "name"},
      {"id", "weight"}, {"id", "weight_or_half"}, {"mask", "tokens", "weight_or_half", "name", "id"},
      {"id", "words"},  {"words", "rows"},        {"pairs", "id"},
      {"rows"}};
  return in.parse_example(p.of(kFeatures));
}

Twin parse_sequence_example(const Twin& in, Picks& p) {
  static const std::vector<std::vector<std::string>> kContexts{{"id"}, {"weight", "words"}, {"mask", "rows"}, {}};
  return in.parse_sequence_example(p.of(kContexts));
}

// Of rows that have some records each.
Twin parse_copied_records(const Twin& in, Picks& p) {
  const Twin copied = in.map_copied_records();
  return p.chance(3) ? parse_sequence_example(copied, p) : parse_example(copied, p);
}

// With the features that they need.
Twin decode_raw(const Twin& in, Picks& p) { return in.parse_example({"pixels", "id"}).decode_raw(p.chance(2)); }
Twin parse_tensor(const Twin& in, Picks&) { return in.parse_example({"id", "tensor"}).parse_tensor(); }

Twin cast(const Twin& in, Picks& p) {
  static const std::vector<DType> kTypes{DType::kInt32, DType::kFloat32, DType::kInt64, DType::kUint8};
  const std::vector<std::string> names = in.features_of(std::nullopt);
  const std::string& name = p.of(names);
  return in.cast(name, p.of(kTypes));
}

Twin padded_batch(const Twin& in, Picks& p) {
  const int64_t size = p.between(1, 9);
  const bool drop_remainder = p.chance(3);
  const int64_t kind = p.between(0, 3);
  PadLength length = kind == 1 ? PadLength::multiple_of(p.between(1, 4)) : PadLength::longest();
  if (kind == 2) {
    int64_t longest = p.between(0, 4);
    for (const FeatureSpec& feature : in.schema().features()) {
      if (feature.shape.size() == 1) longest = std::max(longest, feature.shape[0]);
    }
    length = PadLength::fixed(longest);
  }
  std::optional<int64_t> value;
  if (has_numbers(in) && p.chance(2)) value = padding_value(in, p);
  return in.padded_batch(size, drop_remainder, length, value);
}

BatchingOptions batches(const Twin& in, Picks& p) {
  const bool drop_remainder = p.chance(3);
  const int64_t kind = p.between(0, in.is_ragged() ? 1 : 3);
  if (kind == 0) return BatchOptions{.drop_remainder = drop_remainder};
  if (kind == 1) return RaggedBatchOptions{.drop_remainder = drop_remainder};
  PaddedBatchOptions options{.drop_remainder = drop_remainder};
  if (kind == 3) options.length = PadLength::multiple_of(p.between(1, 4));
  if (has_numbers(in) && p.chance(2)) options.value = padding_value(in, p);
  return options;
}

std::vector<std::string> measurable_features(const Twin& in) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : in.schema().features()) {
    if (!feature.shape.empty()) names.push_back(feature.name);
  }
  return names;
}
bool can_bucket(const Twin& in) { return can_pad(in) && !measurable_features(in).empty(); }

Twin bucket_by_sequence_length(const Twin& in, Picks& p) {
  const std::vector<std::string> names = measurable_features(in);
  std::vector<std::string> features{p.of(names)};
  if (p.chance(4)) features.push_back(p.of(names));
  std::vector<int64_t> boundaries;
  for (int64_t more = p.between(1, 3); more > 0; --more) {
    boundaries.push_back((boundaries.empty() ? 0 : boundaries.back()) + p.between(1, 3));
  }
  std::vector<int64_t> batch_sizes;
  for (size_t i = 0; i <= boundaries.size(); ++i) batch_sizes.push_back(p.between(1, 5));
  const bool pad_to_boundary = p.chance(3);
  const bool drop_remainder = p.chance(3);
  const PadLength length =
      !pad_to_boundary && p.chance(2) ? PadLength::multiple_of(p.between(1, 4)) : PadLength::longest();
  std::optional<int64_t> value;
  if (has_numbers(in) && p.chance(2)) value = padding_value(in, p);
  return in.bucket_by_sequence_length(features, boundaries, batch_sizes, pad_to_boundary, drop_remainder, length,
                                      value);
}

std::vector<std::string> packable_features(const Twin& in) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : in.schema().features()) {
    const bool is_new = feature.name != "segment_ids" && feature.name != "positions";
    if (is_new && feature.shape.size() == 1 && feature.dtype != DType::kBytes) names.push_back(feature.name);
  }
  return names;
}
bool can_pack(const Twin& in) { return in.most() <= kMostElements && !packable_features(in).empty(); }

Twin pack(const Twin& in, Picks& p) {
  const int64_t length = p.between(3, 12);
  const int64_t look_ahead = p.between(1, 9);
  const LongSequences long_sequences = p.chance(2) ? LongSequences::kSplit : LongSequences::kError;
  const std::vector<std::string> names = packable_features(in);
  std::vector<std::string> features{p.of(names)};
  // Another with as many values, or there are errors.
  if (const std::string& other = p.of(names); other != features[0]) features.push_back(other);
  return in.pack(length, look_ahead, long_sequences, features);
}

std::vector<std::string> vectors(const Twin& in) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : in.schema().features()) {
    if (feature.shape.size() == 1) names.push_back(feature.name);
  }
  return names;
}
bool has_vectors(const Twin& in) { return !vectors(in).empty(); }
bool has_two_vectors(const Twin& in) { return vectors(in).size() >= 2; }

int64_t known_size(const Twin& in, const std::string& vector) {
  return in.schema()[static_cast<size_t>(in.schema().column(vector))].shape[0];
}

Twin truncate(const Twin& in, Picks& p) {
  const std::vector<std::string> names = vectors(in);
  std::vector<std::string> features{p.of(names)};
  // Another with as many values, or there are errors.
  const std::string& other = p.of(names);
  const int64_t sizes[2] = {known_size(in, features[0]), known_size(in, other)};
  if (other != features[0] && (sizes[0] == sizes[1] || sizes[0] == kVaries || sizes[1] == kVaries)) {
    features.push_back(other);
  }
  const int64_t head = p.between(0, 4);
  const int64_t tail = p.between(head == 0 ? 1 : 0, 4);
  // A marker among records is none that the models of parsers know.
  const bool marks = p.chance(3) && !is_records(in);
  return in.truncate(features, head, tail, marks);
}

Twin truncate_pair(const Twin& in, Picks& p) {
  const std::vector<std::string> names = vectors(in);
  const auto first = static_cast<size_t>(p.between(0, static_cast<int64_t>(names.size()) - 2));
  const auto second =
      static_cast<size_t>(p.between(static_cast<int64_t>(first) + 1, static_cast<int64_t>(names.size()) - 1));
  return in.truncate_pair(names[first], names[second], p.between(1, 12));
}

std::vector<std::string> whole_scalars(const Twin& in) {
  std::vector<std::string> names;
  for (const std::string& name : integer_features(in)) {
    if (in.schema()[static_cast<size_t>(in.schema().column(name))].shape.empty()) names.push_back(name);
  }
  return names;
}
// Of endless data perhaps nothing would ever stay.
bool has_classes(const Twin& in) { return !in.infinite() && !whole_scalars(in).empty(); }

Twin rejection_resample(const Twin& in, Picks& p) {
  const std::string feature = p.of(whole_scalars(in));
  const int64_t num_classes = p.between(1, 4);
  const bool counts = p.chance(2);
  std::vector<double> target;
  std::vector<double> initial;
  for (int64_t c = 0; c < num_classes; ++c) {
    target.push_back(0.25 * static_cast<double>(p.between(c == 0 ? 1 : 0, 4)));
    if (!counts) initial.push_back(0.5 * static_cast<double>(p.between(1, 4)));
  }
  const auto seed = static_cast<uint64_t>(p.between(0, 5));
  // Now and then there are other numbers than classes.
  return (p.chance(4) ? in : in.modulo(feature, num_classes)).rejection_resample(feature, target, initial, seed);
}

Twin mask_words(const Twin& in, Picks& p) {
  const double probability = 0.25 * static_cast<double>(p.between(0, 4));
  const auto seed = static_cast<uint64_t>(p.between(0, 5));
  // Where words start by id, or by a feature: the tokens' own, 0 goes on.
  const FeatureSpec& ids = in.schema()[static_cast<size_t>(in.schema().column("tokens"))];
  std::vector<std::string> starts{""};
  for (const std::string& name : integer_features(in)) {
    if (in.schema()[static_cast<size_t>(in.schema().column(name))].shape == ids.shape) starts.push_back(name);
  }
  return in.mask_words(probability, seed, p.of(starts));
}

bool can_corrupt(const Twin& in) {
  const int tokens = in.schema().find("tokens");
  if (tokens < 0 || in.schema().find("labels") >= 0) return false;
  const FeatureSpec& ids = in.schema()[static_cast<size_t>(tokens)];
  return (ids.dtype == DType::kInt64 || ids.dtype == DType::kInt32) && !ids.is_ragged() && !ids.shape.empty() &&
         ids.shape.size() <= 2;
}

Twin corrupt_spans(const Twin& in, Picks& p) {
  const double density = 0.125 * static_cast<double>(p.between(1, 6));
  const double mean = 1 + 0.5 * static_cast<double>(p.between(0, 4));
  const FeatureSpec& ids = in.schema()[static_cast<size_t>(in.schema().column("tokens"))];
  // Few sentinels are an error of long rows; where all have one length, of the arguments.
  const bool few = ids.shape.back() == kVaries && p.chance(2);
  return in.corrupt_spans(density, mean, few ? p.between(1, 2) : 500, p.chance(2),
                          static_cast<uint64_t>(p.between(0, 5)));
}

// Elements that are matrices of tokens, and no batches.
Twin matrices_of_tokens(const Twin& in) { return in.map_copied_records().parse_example({"tokens", "mask"}); }

// Batches of tokens that are not the first input.
Twin zip_with_batches(Picks& p, const Weave& weave) {
  const Twin numbers = Twin::range(0, p.between(0, 20), 1, weave, "side");
  const Twin tokens = read(kPlain, p, weave).parse_example({"tokens", "mask"});
  const int64_t size = p.between(2, 5);
  const Twin batches = tokens.batch(size, p.chance(2));
  const std::vector<Twin> inputs =
      p.chance(4) ? std::vector<Twin>{batches, numbers} : std::vector<Twin>{numbers, batches};
  return Twin::zip(inputs, weave).mask_tokens(0.5, static_cast<uint64_t>(p.between(0, 5)));
}

Twin one_hot(const Twin& in, Picks& p) {
  static const std::vector<DType> kDTypes{DType::kInt32, DType::kInt64, DType::kFloat32, DType::kUint8};
  std::vector<std::string> names;
  for (const std::string& name : integer_features(in)) {
    if (!in.schema()[static_cast<size_t>(in.schema().column(name))].is_ragged()) names.push_back(name);
  }
  const std::string& name = p.of(names);
  return in.one_hot(name, p.between(1, 5), p.of(kDTypes));
}

// Batches of images, of some that may be errors. Where there are batches already, those of batches are refused.
Twin image_batches(const Twin& in, Picks& p) {
  const int64_t size = p.between(1, 5);
  return in.map_image_rows().batch(size, p.chance(3));
}

double some_alpha(Picks& p) {
  static const std::vector<double> kAlphas{1, 0.25, 0.5, 3};
  return p.of(kAlphas);
}

Twin mixup(const Twin& in, Picks& p) {
  const Twin images = image_batches(in, p);
  const std::vector<std::string> features =
      p.chance(3) ? std::vector<std::string>{"label"} : std::vector<std::string>{"large", "label"};
  const double alpha = some_alpha(p);
  const double probability = p.chance(3) ? 0.5 : 1;
  return images.mixup(features, alpha, probability, static_cast<uint64_t>(p.between(0, 5)));
}

Twin cutmix(const Twin& in, Picks& p) {
  const Twin images = image_batches(in, p);
  const std::string image = p.chance(2) ? "image" : "large";
  const double alpha = some_alpha(p);
  const double probability = p.chance(3) ? 0.5 : 1;
  return images.cutmix(image, {"label"}, alpha, probability, static_cast<uint64_t>(p.between(0, 5)));
}

// Images as rows or in batches of them.
Twin images_of(const Twin& in, Picks& p) {
  return p.chance(2) && can_batch(in) ? image_batches(in, p) : in.map_image_rows();
}

Twin augment_images(const Twin& in, Picks& p) {
  AugmentImagesOptions options{.features = {"image"}};
  options.rotate = p.chance(2);
  options.flip_left_right = p.chance(2);
  options.flip_up_down = p.chance(2);
  options.brightness = 0.25 * static_cast<double>(p.between(0, 3));
  if (p.chance(2)) options.contrast = {0.5, 1.25};
  if (p.chance(3)) options.clip = {0.25, 0.75};
  options.seed = static_cast<uint64_t>(p.between(0, 5));
  const Twin images = images_of(in, p);
  if (!p.chance(2)) {
    options.features.emplace_back("large");
    return images.augment_images(options);
  }
  // Colours, which `large` has not.
  options.hue = 0.125 * static_cast<double>(p.between(0, 4));
  if (options.hue == 0 || p.chance(2)) options.saturation = {0.5, 3};
  return (p.chance(2) ? images.cast("image", DType::kFloat32) : images).augment_images(options);
}

Twin resize(const Twin& in, Picks& p) {
  ResizeOptions options{.feature = p.chance(2) ? "image" : "large"};
  static const std::vector<ResizeMethod> kMethods{ResizeMethod::kNearest, ResizeMethod::kBilinear, ResizeMethod::kArea,
                                                  ResizeMethod::kBicubic};
  options.method = p.of(kMethods);
  options.antialias = p.chance(2);
  const int64_t side = options.feature == "image" ? 4 : 6;
  // Half as many pixels, as many or twice as many: then all sums are exact.
  const auto pixels = [&] { return (side / 2) << p.between(0, 2); };
  if (p.chance(3)) {
    (p.chance(2) ? options.shorter_side : options.longer_side) = pixels();
  } else {
    options.height = pixels();
    options.width = pixels();
  }
  options.keep_dtype = p.chance(2);
  return images_of(in, p).resize(options);
}

Twin crop(const Twin& in, Picks& p) {
  CropOptions options{.features = {p.chance(2) ? "image" : "large"}};
  const bool is_resized = p.chance(3);
  if (is_resized) {
    options.window.kind = CropKind::kRandomResized;
    options.window.area = {0.25, p.chance(2) ? 0.5 : 1};
    options.window.attempts = p.between(0, 10);
  } else {
    options.window.kind = p.chance(3) ? CropKind::kCentre : CropKind::kRandom;
    options.window.height = p.between(1, 4);
    options.window.width = p.between(1, 4);
  }
  options.seed = static_cast<uint64_t>(p.between(0, 5));
  return (is_resized ? in.map_image_rows() : images_of(in, p)).crop(options);
}

Twin decode_image(const Twin& in, Picks& p) {
  static const std::vector<int64_t> kChannels{3, 0, 1, 4};
  DecodeImageOptions options{.channels = p.of(kChannels),
                             .seed = static_cast<uint64_t>(p.between(0, 5)),
                             .upright = p.chance(2),
                             .least_side = p.between(0, 2)};
  if (options.channels % 3 == 0 && p.chance(2)) options.background = Shape{p.between(0, 255), 0, 200};
  switch (p.between(0, 4)) {
    case 0: options.size = Shape{p.between(1, 3), p.between(1, 4)}; break;
    case 1: options.crop = ImageCrop{.kind = CropKind::kRandomResized}; break;
    case 2: break;
    default:
      options.crop = ImageCrop{.kind = p.chance(2) ? CropKind::kCentre : CropKind::kRandom,
                               .height = p.between(1, 2),
                               .width = p.between(1, 2)};
  }
  return in.decode_image(options);
}

Twin pad(const Twin& in, Picks& p) {
  const PadOptions options{.feature = p.chance(2) ? "image" : "large",
                           .height = p.between(6, 8),
                           .width = p.between(6, 9),
                           .value = static_cast<double>(p.between(0, 3)),
                           .kind = p.chance(3) ? PadKind::kTopLeft : PadKind::kCentre};
  return images_of(in, p).pad(options);
}

Twin normalize(const Twin& in, Picks& p) {
  NormalizeOptions options{.feature = p.chance(2) ? "image" : "large",
                           .mean = {0.25 * static_cast<double>(p.between(-2, 4))},
                           .standard_deviation = {static_cast<double>(p.between(1, 5))}};
  if (options.feature == "image" && p.chance(2)) options.mean.insert(options.mean.end(), {100, 50});
  options.channels_first = p.chance(3);
  return images_of(in, p).normalize(options);
}

int64_t small_or_large(Picks& p) { return p.chance(5) ? int64_t{1} << p.between(30, 45) : p.between(-3, 4); }

Twin modulo(const Twin& in, Picks& p, const std::vector<std::string>& names) {
  const std::string& name = p.of(names);
  return in.modulo(name, p.chance(2) ? p.between(1, 9) : -p.between(1, 9));
}

template <typename Add>
Twin on_number(const Twin& in, Picks& p, Add&& add) {
  const std::vector<std::string> names = in.features_of(std::nullopt);
  const std::string& name = p.of(names);
  const FeatureSpec& feature = in.schema()[static_cast<size_t>(in.schema().column(name))];
  if (feature.dtype == DType::kUint8) return add(name, p.between(0, 4));
  return add(name, feature.dtype == DType::kInt32 ? p.between(-3, 4) : small_or_large(p));
}

const std::array kSources{
    SourceLine{"range", 12,
               [](Picks& p, const Weave& w) {
                 const int64_t count = p.chance(30) ? p.between(1000, 2600) : p.between(0, 60);
                 const int64_t step = p.between(1, 3);
                 return p.chance(4) ? Twin::range(20, 20 - count, -step, w)
                                    : Twin::range(-5, count * step - 5, step, w);
               }},
    SourceLine{"load", 8,
               [](Picks& p, const Weave& w) { return Twin::load(p.chance(4) ? 2600 : p.between(0, 40), w); }},
    SourceLine{"rows", 12, [](Picks& p, const Weave& w) { return Twin::rows(p.between(0, 40), w); }},
    SourceLine{"from_generator", 10,
               [](Picks& p, const Weave& w) {
                 const auto rule = static_cast<GeneratorRuns::Rule>(p.between(0, 2));  // those that can be saved
                 return Twin::from_generator(p.chance(20) ? p.between(1000, 1300) : p.between(0, 40), rule, w);
               }},
    SourceLine{"tfrecord", 26, [](Picks& p, const Weave& w) { return read(kPlain, p, w); }},
    SourceLine{"tfrecord", 20, [](Picks& p, const Weave& w) { return read(kCompressed, p, w); }},
    SourceLine{"tfrecord", 18, [](Picks& p, const Weave& w) { return read(kWithErrors, p, w); }},
    SourceLine{"tfrecord", 6,
               [](Picks& p, const Weave& w) {
                 DamagePolicy damage{.action = DamagePolicy::kSkip};
                 if (p.chance(3)) damage.max_records = p.between(0, 2);
                 return read(kDamaged, p, w, damage);
               }},
    SourceLine{"files", 8,
               [](Picks& p, const Weave& w) {
                 std::vector<std::string> names = text_files("lines-", p);
                 for (const std::string& word : text_files("words-", p)) names.push_back(word);
                 const FileReadOptions read = file_options(p);
                 return Twin::files(names,
                                    {.label_from_folder = p.chance(2),
                                     .shuffle_files = read.shuffle_shards,
                                     .seed = read.seed,
                                     .damage = read.damage},
                                    w);
               }},
    SourceLine{"text_lines", 8,
               [](Picks& p, const Weave& w) {
                 const std::vector<std::string> names = text_files("lines-", p);
                 return Twin::text_lines(names, file_options(p), w);
               }},
    SourceLine{"fixed_length_records", 8,
               [](Picks& p, const Weave& w) {
                 const std::vector<std::string> names = text_files("words-", p);
                 return Twin::fixed_length_records(names, file_options(p), w);
               }},
    SourceLine{"global_shuffle", 14, global_shuffle},
    SourceLine{"csv_records", 9,  // and parse_csv, which has no line of its own
               [](Picks& p, const Weave& w) {
                 const std::vector<std::string> names = text_files("table-", p);
                 return Twin::csv(names, file_options(p), w);
               }},
    SourceLine{"interleave", 12, interleave, true},
    SourceLine{"concatenate", 7, concatenate, true},
    SourceLine{"flat_map", 4, [](Picks& p, const Weave& w) { return Twin::flat_map(inputs_alike(p, w), w); }, true},
    SourceLine{"zip", 10, zip, true},
    SourceLine{"zip", 4, zip_with_batches, true},
    SourceLine{"choose_from_datasets", 7, choose_from_datasets, true},
    SourceLine{"sample_from_datasets", 8, sample_from_datasets, true},
};

const std::array kOperators{
    OperatorLine{"parse_example", 40, is_records, parse_example},
    OperatorLine{"parse_sequence_example", 10, is_records, parse_sequence_example},
    OperatorLine{"parse_example", 8, is_single_records, parse_copied_records},
    OperatorLine{"decode_raw", 9, is_single_records, decode_raw},
    OperatorLine{"parse_tensor", 13, is_single_records, parse_tensor},
    OperatorLine{"assert_cardinality", 5, is_finite,
                 [](const Twin& in, Picks& p) {
                   // The right number, where it is known, or another.
                   const Cardinality known = in.dataset().cardinality();
                   return in.assert_cardinality(known.is_known() && !p.chance(3) ? known.count() : p.between(0, 25));
                 }},
    OperatorLine{"cache", 6, is_finite, [](const Twin& in, Picks&) { return in.cache(); }},
    OperatorLine{"cache_on_disk", 5, is_finite, [](const Twin& in, Picks&) { return in.cache_on_disk(); }},
    OperatorLine{"snapshot", 5, is_finite, [](const Twin& in, Picks&) { return in.snapshot(); }},
    OperatorLine{"flat_map", 5, can_repeat, [](const Twin& in, Picks&) { return in.flat_map_few_numbers(); }},
    OperatorLine{"interleave", 8, can_repeat,
                 [](const Twin& in, Picks& p) {
                   const auto cycle_length = static_cast<size_t>(p.chance(4) ? p.between(6, 40) : p.between(1, 5));
                   return in.interleave_few_numbers(cycle_length, static_cast<size_t>(p.between(1, 4)));
                 }},
    OperatorLine{"take_while", 5, always,
                 [](const Twin& in, Picks& p) {
                   const int64_t divisor = p.between(5, 60);
                   return in.take_while_rows(divisor, p.between(0, divisor - 1));
                 }},
    OperatorLine{"enumerate", 5, always,
                 [](const Twin& in, Picks& p) {
                   const int64_t start = p.between(-5, 5);
                   // Now and then in the place of another feature.
                   const std::string feature = p.chance(4) ? p.of(in.schema().features()).name : "index";
                   const int found = in.schema().find(feature);
                   const size_t column = found < 0 ? in.schema().size() : static_cast<size_t>(found);
                   return in.then("enumerate", in.dataset().enumerate(start, feature),
                                  model_of_enumerate(in.model(), start, column),
                                  fmt::format(".enumerate({}, \"{}\")", start, feature));
                 }},
    OperatorLine{"scan", 6, always,
                 [](const Twin& in, Picks& p) {
                   const int64_t divisor = p.between(4, 40);
                   return in.scan_add_up_rows(divisor, p.between(0, divisor - 1));
                 }},
    OperatorLine{"unique", 6, is_finite,
                 [](const Twin& in, Picks& p) { return in.unique(p.of(in.schema().features()).name); }},
    OperatorLine{"rejection_resample", 9, has_classes, rejection_resample},
    OperatorLine{"take", 6, always, [](const Twin& in, Picks& p) { return in.take(p.between(-1, 40)); }},
    OperatorLine{"skip", 5, is_finite, [](const Twin& in, Picks& p) { return in.skip(p.between(-1, 12)); }},
    OperatorLine{"shard", 5, always,
                 [](const Twin& in, Picks& p) {
                   const int64_t num_shards = p.between(1, 4);
                   return in.shard(num_shards, p.between(0, num_shards - 1));
                 }},
    OperatorLine{"repeat", 9, can_repeat,
                 [](const Twin& in, Picks& p) { return in.repeat(p.chance(4) ? -1 : p.between(0, 3)); }},
    OperatorLine{"shuffle", 22, always,
                 [](const Twin& in, Picks& p) {
                   const int64_t buffer_size = p.between(1, 50);
                   const auto seed = static_cast<uint64_t>(p.between(0, 5));
                   return in.shuffle(buffer_size, {.seed = seed, .reshuffle_each_iteration = !p.chance(4)});
                 }},
    OperatorLine{"batch", 9, can_batch,
                 [](const Twin& in, Picks& p) {
                   const int64_t size = p.between(1, 9);
                   return in.batch(size, p.chance(3));
                 }},
    OperatorLine{"padded_batch", 9, can_pad, padded_batch},
    OperatorLine{"ragged_batch", 7, can_batch,
                 [](const Twin& in, Picks& p) {
                   const int64_t size = p.between(1, 9);
                   return in.ragged_batch(size, p.chance(3));
                 }},
    OperatorLine{"bucket_by_sequence_length", 14, can_bucket, bucket_by_sequence_length},
    OperatorLine{"group_by_window", 9, can_batch,
                 [](const Twin& in, Picks& p) {
                   const int64_t divisor = p.between(1, 4);
                   std::optional<int64_t> window_size;
                   if (!p.chance(3)) window_size = p.between(1, 6);
                   return in.group_by_window(divisor, window_size, batches(in, p));
                 }},
    OperatorLine{"window", 9, can_batch,
                 [](const Twin& in, Picks& p) {
                   const int64_t size = p.between(1, 5);
                   const int64_t shift = p.between(1, 7);
                   const int64_t stride = p.between(1, 3);
                   return in.window(size, shift, stride, batches(in, p));
                 }},
    OperatorLine{"pack", 16, can_pack, pack},
    OperatorLine{"unbatch", 10, can_unbatch, [](const Twin& in, Picks&) { return in.unbatch(); }},
    OperatorLine{"rebatch", 12, can_unbatch,
                 [](const Twin& in, Picks& p) {
                   const int64_t size = p.between(1, 9);
                   return in.rebatch(size, p.chance(3));
                 }},
    OperatorLine{"map", 5, always, [](const Twin& in, Picks&) { return in.map_number_rows(); }},
    OperatorLine{"map", 4, always, [](const Twin& in, Picks&) { return in.map_span_rows(); }},
    OperatorLine{"map", 3, always,
                 [](const Twin& in, Picks& p) {
                   const int64_t divisor = p.between(2, 30);
                   return in.map_fail_rows(divisor, p.between(0, divisor - 1));
                 }},
    OperatorLine{"map", 4, has_int64,
                 [](const Twin& in, Picks& p) { return in.map_negate_blocks(p.of(in.features_of(DType::kInt64))); }},
    OperatorLine{"filter", 4, is_finite,
                 [](const Twin& in, Picks& p) {
                   const int64_t divisor = p.between(2, 6);
                   return in.filter_rows(divisor, p.between(0, divisor - 1));
                 }},
    OperatorLine{"filter", 3, is_finite,
                 [](const Twin& in, Picks& p) {
                   const int64_t divisor = p.between(2, 6);
                   return in.filter_blocks(divisor, p.between(0, divisor - 1));
                 }},
    OperatorLine{"mask_tokens", 30, can_mask,
                 [](const Twin& in, Picks& p) {
                   const double probability = 0.25 * static_cast<double>(p.between(0, 4));
                   return in.mask_tokens(probability, static_cast<uint64_t>(p.between(0, 5)));
                 }},
    OperatorLine{"mask_tokens", 15, can_mask, mask_words},
    OperatorLine{"mask_tokens", 15, can_mask,
                 [](const Twin& in, Picks& p) {
                   const double probability = 0.125 * static_cast<double>(p.between(0, 4));
                   const auto seed = static_cast<uint64_t>(p.between(0, 5));
                   const bool of_words = p.chance(3);
                   const double stop = 0.25 * static_cast<double>(p.between(1, 4));
                   return in.mask_spans(probability, seed, of_words, stop, p.between(1, 5));
                 }},
    OperatorLine{"mask_tokens", 6, is_single_records,
                 [](const Twin& in, Picks& p) {
                   const auto seed = static_cast<uint64_t>(p.between(0, 5));
                   const Twin matrices = matrices_of_tokens(in);
                   return p.chance(2) ? matrices.mask_tokens(0.5, seed) : matrices.mask_words(0.5, seed, "");
                 }},
    OperatorLine{"corrupt_spans", 15, can_corrupt, corrupt_spans},
    OperatorLine{"corrupt_spans", 6, is_single_records,
                 [](const Twin& in, Picks& p) { return corrupt_spans(matrices_of_tokens(in), p); }},
    OperatorLine{"augment_images", 8, always, augment_images},
    OperatorLine{"decode_image", 7, always, decode_image},
    OperatorLine{"resize", 7, always, resize},
    OperatorLine{"crop", 7, always, crop},
    OperatorLine{"pad", 6, always, pad},
    OperatorLine{"normalize", 6, always, normalize},
    OperatorLine{"mixup", 7, can_batch, mixup},
    OperatorLine{"cutmix", 7, can_batch, cutmix},
    OperatorLine{"add", 6, has_numbers,
                 [](const Twin& in, Picks& p) {
                   return on_number(in, p, [&](const std::string& name, int64_t k) { return in.add(name, k); });
                 }},
    OperatorLine{"multiply", 4, has_numbers,
                 [](const Twin& in, Picks& p) {
                   return on_number(in, p, [&](const std::string& name, int64_t k) { return in.multiply(name, k); });
                 }},
    OperatorLine{"modulo", 6, has_integers,
                 [](const Twin& in, Picks& p) { return modulo(in, p, integer_features(in)); }},
    OperatorLine{"modulo", 4, has_floats,
                 [](const Twin& in, Picks& p) {
                   // Large ones and small ones of both signs, where a quotient is not exact.
                   const std::string name = p.of(in.features_of(DType::kFloat32));
                   const int64_t k = p.chance(2) ? -p.between(1, 9) : int64_t{1} << p.between(0, 40);
                   return modulo(in.multiply(name, k).add(name, p.between(-1, 1)), p, {name});
                 }},
    OperatorLine{"cast", 5, has_numbers, cast},
    OperatorLine{"rename", 5, always,
                 [](const Twin& in, Picks& p) {
                   const std::string from = p.of(in.schema().features()).name;
                   const std::string to = in.schema().find("renamed") < 0 ? "renamed" : from;
                   return in.then("rename", in.dataset().rename({{from, to}}), in.model(),
                                  fmt::format(".rename({{{{\"{}\", \"{}\"}}}})", from, to));
                 }},
    OperatorLine{"select", 5, always,
                 [](const Twin& in, Picks& p) { return in.select(some_features(in, p, in.schema().size())); }},
    OperatorLine{"drop", 7, has_several_features,
                 [](const Twin& in, Picks& p) { return in.drop(some_features(in, p, in.schema().size() - 1)); }},
    OperatorLine{"one_hot", 7, has_indices, one_hot},
    OperatorLine{"truncate", 9, has_vectors, truncate},
    OperatorLine{"truncate_pair", 24, has_two_vectors, truncate_pair},
    OperatorLine{"ignore_errors", 5, can_ignore, [](const Twin& in, Picks&) { return in.ignore_errors(); }},
    OperatorLine{"damage_budget", 9, always,
                 [](const Twin& in, Picks& p) {
                   const int64_t most = p.between(0, 3);
                   const DamagePolicy damage{.action = DamagePolicy::kSkip, .max_records = most};
                   return in.then(
                       "damage_budget", in.dataset().damage_budget(damage), model_of_damage_budget(in.model(), most),
                       fmt::format(".damage_budget({{.action = DamagePolicy::kSkip, .max_records = {}}})", most));
                 }},
    OperatorLine{"prefetch", 5, always, [](const Twin& in, Picks& p) { return in.prefetch(p.between(0, 3)); }},
};

}  // namespace

std::span<const SourceLine> source_lines() { return kSources; }
std::span<const OperatorLine> operator_lines() { return kOperators; }

}  // namespace millrace::test
