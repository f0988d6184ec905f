#include "examples/frozen_features/feature_set.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/csv/csv_table.h"
#include "examples/frozen_features/feature_extractor.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/writer.h"
#include "millrace/formats/json/read_json.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/not_finite.h"
#include "millrace/trainer/run/missing_data.h"
#include "millrace/trainer/run/shard_set_writer.h"

namespace millrace {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FeatureSet, classes, train, test, left_out, seed, network, size, background, mean,
                                   deviation)

namespace {

namespace fs = std::filesystem;

constexpr const char* kStatistics = "statistics.json";
constexpr const char* kPictures = "pictures.csv";
constexpr const char* kNetwork = "network.safetensors";
// Of the network that is drawn.
const std::vector<std::vector<int64_t>> kBlocks = {{32, 32}, {64, 64}, {128, 128}};
constexpr uint64_t kNetworkSeed = 1;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

std::string shard_name(int64_t number) { return fmt::format("dataset.{}.tfrecord", number); }

ShardSetOptions shard_set() {
  ShardSetOptions set{.shard_names = R"(dataset\.[0-7]\.tfrecord)", .optional_files = {kNetwork}};
  for (const char* split : kFeatureSplits) {
    for (int64_t number = 0; number < kFeatureShards; ++number) {
      set.splits.push_back({.folder = split, .file_name = [number](int64_t, int64_t) { return shard_name(number); }});
    }
  }
  return set;
}

// `drawn`: where one that is drawn lies until the set is put in place.
Vgg network_of(const FeatureSetOptions& options, const std::string& drawn) {
  if (!options.features.empty()) return Vgg::read(options.features);
  Vgg::drawn(kBlocks, kNetworkSeed).write(drawn);
  return Vgg::read(drawn);
}

// `features` and `path`.
Dataset frozen_features(const std::vector<std::string>& paths, const FeatureExtractor& extractor,
                        const FeatureSetOptions& options) {
  return Dataset::files(Shards::files(paths))
      .decode_image("bytes", {.background = options.background, .upright = true})
      .resize({.feature = "bytes", .shorter_side = options.size, .antialias = true})
      .crop({.features = {"bytes"}, .window = {.height = options.size, .width = options.size}})
      .map({.name = "frozen features",
            .writes = {{.name = "features", .dtype = DType::kFloat32, .shape = {extractor.length()}}},
            .function =
                [&extractor, size = options.size](const RowView& row, RowWriter& out) {
                  const std::array<int64_t, 1> shape = {extractor.length()};
                  extractor.extract(row.values<float>("bytes"), size, size, out.make<float>("features", shape));
                }})
      .drop({"bytes"});
}

// Why a picture was left out. Throws what is no fault of its bytes.
std::string fault_of(const std::string& path, const FeatureExtractor& extractor, const FeatureSetOptions& options) {
  try {
    (void)frozen_features({path}, extractor, options).start({.threads = 1}).next();
  } catch (const ErrorException& exception) {
    constexpr std::array kOfBytes = {ErrorCode::kParse, ErrorCode::kTruncated, ErrorCode::kOutOfRange,
                                     ErrorCode::kWrongShape, ErrorCode::kRecordTooLarge};
    if (std::ranges::find(kOfBytes, exception.error().code) == kOfBytes.end()) throw;
    return exception.what();
  }
  throw ErrorException({.code = ErrorCode::kIo, .message = "read twice, it gave two results", .shard = path});
}

// Mean and deviation of each feature, over rows that come one after the other (Welford 1962).
class Moments {
 public:
  explicit Moments(int64_t length) : mean_(static_cast<size_t>(length)), squares_(mean_.size()) {}
  void add(std::span<const float> features) {
    ++count_;
    for (size_t i = 0; i < mean_.size(); ++i) {
      const double from_old = features[i] - mean_[i];
      mean_[i] += from_old / static_cast<double>(count_);
      squares_[i] += from_old * (features[i] - mean_[i]);
    }
  }
  const std::vector<double>& mean() const { return mean_; }
  std::vector<double> deviation() const {
    std::vector<double> result = squares_;
    for (double& value : result) value = std::sqrt(value / static_cast<double>(std::max<int64_t>(1, count_)));
    return result;
  }

 private:
  int64_t count_ = 0;
  std::vector<double> mean_;
  std::vector<double> squares_;
};

}  // namespace

int64_t FeatureSet::num_pictures(FeatureSplit split) const {
  const std::vector<int64_t>& of_class = split == FeatureSplit::kTrain ? train : test;
  return std::accumulate(of_class.begin(), of_class.end(), int64_t{0});
}

std::optional<FeatureSet> write_feature_set(const FeatureSetOptions& options) {
  const ChosenPictures chosen = choose_pictures(options.pictures);
  ShardSetWriter writer(options.out, shard_set());
  const std::string drawn_network = writer.temporary_path(kNetwork);
  const FeatureExtractor extractor(network_of(options, drawn_network));
  if (const int64_t least = extractor.network().least_side(); options.size < least) {
    refuse(fmt::format("pictures of {} x {} pixels; the network needs {} at least", options.size, options.size, least));
  }
  FeatureSet set{.classes = chosen.classes,
                 .train = std::vector<int64_t>(chosen.classes.size()),
                 .test = std::vector<int64_t>(chosen.classes.size()),
                 .left_out = chosen.left_out,
                 .seed = options.pictures.seed,
                 .network = extractor.network().describe(),
                 .size = options.size,
                 .background = options.background};
  std::vector<std::string> paths;
  for (const ChosenPicture& picture : chosen.pictures) {
    paths.push_back((fs::path(options.pictures.folder) / picture.path).string());
  }

  Moments moments(extractor.length());
  ExampleWriter example;
  std::vector<float> label(set.classes.size());
  std::string csv = "part,element,class,path\n";
  const auto write = [&](const ChosenPicture& picture, std::span<const float> features) {
    if (const auto wrong = first_not_finite(std::as_bytes(features))) {
      refuse(fmt::format("feature {} of {} is {}", wrong->position, picture.path, wrong->value));
    }
    const FeatureSplit part = picture.test ? FeatureSplit::kTest : FeatureSplit::kTrain;
    const auto split = static_cast<size_t>(part);
    const int64_t element = set.num_pictures(part);
    const auto number = static_cast<size_t>(picture.label);
    label[number] = 1;
    example.add("features", features);
    example.add("label", std::span<const float>(label));
    label[number] = 0;
    writer.write(split * kFeatureShards + static_cast<size_t>(element % kFeatureShards), example.finish());
    csv += csv_record({kFeatureSplits[split], std::to_string(element), set.classes[number], picture.path});
    ++set.of(part)[number];
    if (!picture.test) moments.add(features);
  };

  Dataset rows = frozen_features(paths, extractor, options);
  if (options.skips_damage) rows = rows.ignore_errors();
  Pipeline pipeline = rows.start({.threads = options.threads});
  for (size_t next = 0; next < paths.size(); ++next) {
    if (options.stop_requested && options.stop_requested()) return std::nullopt;
    const std::optional<Batch> row = pipeline.next();
    // What comes next is another one where pictures were left out.
    for (; next < paths.size() && (!row || row->values<std::string_view>("path")[0] != paths[next]); ++next) {
      std::cerr << fmt::format("left out: {}\n", fault_of(paths[next], extractor, options));
      ++set.left_out["cannot be decoded"];
    }
    if (!row) break;
    write(chosen.pictures[next], row->values<float>("features"));
    if (options.on_progress) options.on_progress(static_cast<int64_t>(next) + 1, std::ssize(paths));
  }
  for (const FeatureSplit part : {FeatureSplit::kTrain, FeatureSplit::kTest}) {
    for (size_t number = 0; number < set.classes.size(); ++number) {
      if (set.of(part)[number] > 0) continue;
      refuse(fmt::format("class '{}' has no picture left to {} on", set.classes[number],
                         kFeatureSplits[static_cast<size_t>(part)]));
    }
  }
  set.mean = moments.mean();
  set.deviation = moments.deviation();
  std::vector<ShardSetFile> files = {{.name = kStatistics, .text = nlohmann::json(set).dump(1) + "\n"},
                                     {.name = kPictures, .text = std::move(csv)}};
  if (options.features.empty()) {
    files.push_back({.name = kNetwork, .text = read_whole_file(drawn_network, "network")});
  }
  writer.commit(files);
  return set;
}

FeatureSet read_feature_set(const std::string& folder) {
  const std::string path = (fs::path(folder) / kStatistics).string();
  const std::optional<std::string> text = find_whole_anywhere(path, "statistics of a set of features");
  if (!text) throw MissingData(fmt::format("there is no {}; prepare_frozen_features writes it", path));
  auto set = json_as<FeatureSet>(*text, path);
  const size_t classes = set.classes.size();
  if (classes < 2 || set.train.size() != classes || set.test.size() != classes || set.mean.empty() ||
      set.mean.size() != set.deviation.size()) {
    throw ErrorException(
        {.code = ErrorCode::kParse,
         .message = fmt::format("{} classes, pictures of {} and {}; {} means, {} deviations", classes, set.train.size(),
                                set.test.size(), set.mean.size(), set.deviation.size()),
         .shard = path});
  }
  return set;
}

Dataset feature_rows(const std::string& folder, const FeatureSet& set, FeatureSplit split) {
  std::vector<std::string> paths;
  std::vector<uint64_t> counts;
  for (int64_t number = 0; number < kFeatureShards; ++number) {
    paths.push_back((fs::path(folder) / kFeatureSplits[static_cast<size_t>(split)] / shard_name(number)).string());
    counts.push_back(static_cast<uint64_t>((set.num_pictures(split) + kFeatureShards - 1 - number) / kFeatureShards));
  }
  // In turns, so in the order in which they were written.
  return Dataset::tfrecord(Shards::files(located(std::move(paths))).with_counts(counts),
                           {.cycle_length = static_cast<size_t>(kFeatureShards)})
      .parse_example({fixed_len("features", {set.length()}, DType::kFloat32),
                      fixed_len("label", {std::ssize(set.classes)}, DType::kFloat32)});
}

std::vector<std::string> picture_paths(const std::string& folder, FeatureSplit split) {
  const CsvTable table((fs::path(folder) / kPictures).string());
  const Dataset rows =
      table.rows({{.name = "part", .dtype = DType::kBytes}, {.name = "path", .dtype = DType::kBytes}},
                 [part = table.column("part"), path = table.column("path")](const CsvRow& row, RowWriter& out) {
                   out.set("part", row.text(part));
                   out.set("path", row.text(path));
                 });
  std::vector<std::string> paths;
  Pipeline pipeline = rows.start({.threads = 1});
  while (const std::optional<Batch> row = pipeline.next()) {
    if (row->values<std::string_view>("part")[0] != kFeatureSplits[static_cast<size_t>(split)]) continue;
    paths.emplace_back(row->values<std::string_view>("path")[0]);
  }
  return paths;
}

}  // namespace millrace
