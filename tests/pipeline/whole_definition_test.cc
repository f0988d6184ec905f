// One dataset with every operator, written and read back.

#include <array>
#include <set>

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "formats/storage/atomic_file.h"
#include "formats/storage/local.h"
#include "formats/tfrecord/index_builder.h"
#include "formats/tfrecord/writer.h"
#include "pipeline/definition/function_registry.h"
#include "pipeline/definition/pipeline_def.h"
#include "pipeline/definition/pipeline_def.pb.h"
#include "pipeline/stream_hash.h"
#include "pipeline/worker_limit.h"
#include "tests/support/example_messages.h"
#include "tests/support/temporary_folder.h"

namespace millrace::whole_definition_test {
namespace {

using test::write_file;

// Functions, each registered by its name.
template <typename Function>
Function known(Function function) {
  static std::set<std::string> names;  // of one kind
  if (names.insert(function.name).second) register_function(function);
  return function;
}

// The hash of each element as the int64 `hash`: so all datasets have one schema.
BlockFunction hash_elements() {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "hash"}});
  return known(
      BlockFunction{.name = "whole.hash", .schema = schema, .function = [schema](Block block, BufferPool& pool) {
                      Column hashes = Column::fixed(pool, DType::kInt64, {}, block.num_elements());
                      for (size_t i = 0; i < block.num_elements(); ++i) {
                        const uint64_t hash = block.error_at(i) == nullptr ? batch_hash(Batch(block.slice(i, 1))) : 0;
                        hashes.mutable_values<int64_t>()[i] = static_cast<int64_t>(hash);
                      }
                      return block.with_columns(schema, {std::move(hashes)});
                    }});
}

RowFunction make_images() {
  return known(RowFunction{.name = "whole.images",
                           .writes = {{.name = "image", .dtype = DType::kFloat32, .shape = {4, 4, 3}},
                                      {.name = "label", .dtype = DType::kFloat32, .shape = {2}}},
                           .function =
                               [](const RowView& row, RowWriter& out) {
                                 const auto value = static_cast<float>(row.value<int64_t>("value"));
                                 const std::array<int64_t, 3> shape{4, 4, 3};
                                 std::span<float> image = out.make<float>("image", shape);
                                 for (size_t i = 0; i < image.size(); ++i) image[i] = value + static_cast<float>(i);
                                 out.set_values<float>("label", std::array<float, 2>{value, 1 - value});
                               },
                           .keep_others = false});
}

RowFunction fail_at_threes() {
  return known(RowFunction{.name = "whole.fail_at_threes", .function = [](const RowView& row, RowWriter&) {
                             if (row.value<int64_t>("value") % 3 == 0) throw std::runtime_error("a three");
                           }});
}

bool is_odd(const RowView& row) { return row.value<int64_t>("value") % 2 == 1; }

BlockPredicate odd_in_blocks() {
  return known(BlockPredicate{.name = "whole.odd", .decide = [](const Block& block, std::span<uint8_t> keep) {
                                const auto values = block.column("value").values<int64_t>();
                                for (size_t i = 0; i < keep.size(); ++i) keep[i] = values[i] % 2 == 1 ? 1 : 0;
                              }});
}

DatasetFunction up_to_value() {
  return known(
      DatasetFunction{.name = "whole.up_to_value", .gives = {{.name = "nested"}}, .make = [](const RowView& row) {
                        return Dataset::range(0, row.value<int64_t>("value"), 1, "nested");
                      }});
}

ScanFunction running_sum() {
  ScanFunction sum;
  sum.name = "whole.sum";
  sum.writes = {{.name = "sum"}};
  sum.initial.integers = {0};
  sum.function = [](ScanNumbers& carried, const RowView& row, RowWriter& out) {
    out.set("sum", carried.integers[0] += row.value<int64_t>("value"));
  };
  return known(sum);
}

WindowSize two_or_four() {
  return known(WindowSize::by_key("whole.two_or_four", [](int64_t key) { return 2 + 2 * key; }));
}

RowKey parity() {
  return known(
      RowKey{.name = "whole.parity", .key = [](const RowView& row) { return row.value<int64_t>("value") % 2; }});
}

Generator squares() {
  return known(Generator{.name = "whole.squares",
                         .gives = {{.name = "square"}},
                         .runs = GeneratorRuns::replayed([](const Iteration&) -> NextElement {
                           return [i = int64_t{0}](RowWriter& out) mutable {
                             if (i == 5) return false;
                             out.set("square", i * i);
                             ++i;
                             return true;
                           };
                         })});
}

// Files of all kinds.
class Files {
 public:
  Files() {
    write_file(folder_.path("lines.txt"), "one\ntwo\nthree\n");
    write_file(folder_.path("words"), "aaaabbbbcccc");
    write_file(folder_.path("table.csv"), "id,name\n1,one\n2,\"two, quoted\"\n");
    write_file(folder_.path("odd.csv"), "id;name;more\n1;one;NA\nbad;two\n3;'three';x\n");
    InlineExecutor executor;
    LocalStorage storage(executor);
    for (int64_t shard = 0; shard < 2; ++shard) {
      const std::string path = folder_.path(fmt::format("{}.tfrecord", shard));
      RecordWriter writer(path, {});
      for (int64_t i = 0; i < 5; ++i) {
        example::Example message;
        auto& features = *message.mutable_features()->mutable_feature();
        for (int64_t k = 0; k < 3; ++k) features["ids"].mutable_int64_list()->add_value(10 * shard + i + k);
        for (const int64_t length : {1, 2}) features["lengths"].mutable_int64_list()->add_value(length);
        for (const int64_t place : {0, 1, 3}) features["places"].mutable_int64_list()->add_value(place);
        writer.write(message.SerializeAsString());
      }
      writer.close();
      write_atomically(index_path(path), build_shard_index(storage, path).serialize());
    }
  }
  Shards of(const std::string& name) const { return Shards::files({folder_.path(name)}); }
  Shards shards() const { return Shards::files({folder_.path("0.tfrecord"), folder_.path("1.tfrecord")}); }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  test::TemporaryFolder folder_;
};

// What the parts below are made of.
struct Inputs {
  Files files;
  Dataset numbers = Dataset::range(0, 12);  // `value`
  Dataset rows = Dataset::rows({{"value", std::vector<int64_t>{3, 1, 1, 2, 0}},
                                {"ids", std::vector<std::vector<int64_t>>{{1, 2, 3}, {4}, {}, {5, 6}, {7, 8, 9, 10}}},
                                {"more", std::vector<std::vector<int64_t>>{{1}, {2, 3}, {4, 5, 6}, {}, {7}}}});
  Dataset bytes = Dataset::rows({{"bytes", std::vector<std::string>{"ab", "", "cdef"}}});
  Dataset tensors =
      Dataset::rows({{"bytes", std::vector<std::string>{{"\x08\x03\x12\x04\x12\x02\x08\x01:\x01\x07", 11}}}});
  Dataset records = Dataset::tfrecord(files.shards());
  Dataset ids = rows.select({"ids"});
  Dataset images = numbers.map(make_images());
};

// One line for each operator. Each must give elements and no errors; what else there is in it is its own business.
using Part = Dataset (*)(const Inputs&);
const std::vector<Part> kParts{
    [](const Inputs&) { return Dataset::range(3, 40, 4, "number"); },
    [](const Inputs& in) { return in.rows; },
    [](const Inputs& in) { return Dataset::tfrecord(in.files.shards(), {.cycle_length = 1, .shuffle_shards = true}); },
    [](const Inputs& in) { return Dataset::global_shuffle(in.files.shards(), {.seed = 5}); },
    [](const Inputs& in) { return Dataset::text_lines(in.files.of("lines.txt")); },
    [](const Inputs& in) { return Dataset::fixed_length_records(in.files.of("words"), {.record_bytes = 4}); },
    [](const Inputs& in) { return Dataset::csv_records(in.files.of("table.csv"), {.header = true}); },
    [](const Inputs&) { return Dataset::from_generator(squares()); },
    [](const Inputs& in) {
      return Dataset::interleave({in.numbers, in.numbers.take(2)}, {.block_length = 2});
    },
    [](const Inputs& in) {
      return Dataset::concatenate({in.numbers, in.numbers.skip(9)});
    },
    [](const Inputs& in) {
      return Dataset::flat_map({in.numbers.take(1), in.numbers});
    },
    [](const Inputs& in) {
      return Dataset::zip({in.numbers, Dataset::range(5, 9, 1, "other")});
    },
    [](const Inputs& in) {
      return Dataset::choose_from_datasets({in.numbers, in.numbers.skip(4)},
                                           in.rows.select({"value"}).modulo("value", 2));
    },
    [](const Inputs& in) {
      return Dataset::sample_from_datasets({in.numbers, in.numbers.take(3)}, {.weights = {1, 2}});
    },
    [](const Inputs& in) { return in.records.parse_example({fixed_len("ids", {3}, DType::kInt64).as(DType::kInt32)}); },
    [](const Inputs& in) { return in.records.parse_sequence_example({var_len("ids", DType::kInt64)}, {}); },
    [](const Inputs& in) {
      return Dataset::csv(in.files.of("table.csv"), {{"id", DType::kInt64}, {"name", DType::kBytes}}, {.header = true});
    },
    [](const Inputs& in) { return in.bytes.decode_raw("bytes", RawType::kInt16); },
    [](const Inputs& in) { return in.tensors.parse_tensor("bytes", DType::kInt64, {kVaries}); },
    [](const Inputs& in) { return in.numbers.map(make_images()); },
    [](const Inputs& in) { return in.numbers.map(hash_elements()); },
    [](const Inputs& in) { return in.numbers.filter(known(RowPredicate{.name = "whole.is_odd", .keep = is_odd})); },
    [](const Inputs& in) { return in.numbers.filter(odd_in_blocks()); },
    [](const Inputs& in) { return in.rows.flat_map(up_to_value()); },
    [](const Inputs& in) { return in.rows.interleave(up_to_value(), {.cycle_length = 2}); },
    [](const Inputs& in) {
      return in.numbers.skip(1).take_while(known(RowPredicate{.name = "whole.is_odd", .keep = is_odd}));
    },
    [](const Inputs& in) { return in.numbers.scan(running_sum()); },
    [](const Inputs& in) { return in.numbers.add("value", 7); },
    [](const Inputs& in) { return in.numbers.multiply("value", 7); },
    [](const Inputs& in) { return in.numbers.modulo("value", 7); },
    [](const Inputs& in) { return in.numbers.cast("value", DType::kFloat32); },
    [](const Inputs& in) { return in.numbers.enumerate(3); },
    [](const Inputs& in) { return in.rows.unique("value"); },
    [](const Inputs& in) {
      return in.ids.mask_tokens(
          {.vocab_size = 20, .mask_token = 4, .probability = 0.5, .seed = 1, .input_ids = "ids", .attention_mask = ""});
    },
    [](const Inputs& in) { return in.ids.corrupt_spans({.vocab_size = 200, .end_token = 1, .input_ids = "ids"}); },
    [](const Inputs& in) { return in.numbers.one_hot("value", 10); },
    [](const Inputs& in) {
      return in.numbers.rename({{"value", "renamed"}});
    },
    [](const Inputs& in) { return in.rows.select({"more"}); },
    [](const Inputs& in) { return in.rows.drop({"more"}); },
    [](const Inputs& in) {
      return in.rows.truncate({.features = {"ids"}, .head = 1, .tail = 1, .marker = {{"ids", int64_t{99}}}});
    },
    [](const Inputs& in) { return in.rows.truncate_pair({.first = {"ids"}, .second = {"more"}, .length = 3}); },
    [](const Inputs& in) {
      return in.numbers.modulo("value", 2).rejection_resample({.feature = "value", .target_distribution = {1, 3}});
    },
    [](const Inputs& in) {
      return in.images.augment_images({.features = {"image"}, .rotate = true, .brightness = 0.5});
    },
    [](const Inputs& in) {
      return in.images.batch(4).mixup({.features = {"image", "label"}});
    },
    [](const Inputs& in) { return in.images.batch(4).cutmix({.labels = {"label"}}); },
    [](const Inputs& in) { return in.numbers.take(5); },
    [](const Inputs& in) { return in.numbers.skip(5); },
    [](const Inputs& in) { return in.numbers.shard(3, 1); },
    [](const Inputs& in) { return in.numbers.repeat(2); },
    [](const Inputs& in) { return in.numbers.shuffle(5, {.seed = 3}); },
    [](const Inputs& in) { return in.numbers.assert_cardinality(12); },
    [](const Inputs& in) { return in.numbers.map(fail_at_threes()).ignore_errors(); },
    [](const Inputs& in) { return in.numbers.cache().repeat(2); },
    [](const Inputs& in) { return in.numbers.cache({.directory = in.files.path("cache")}).repeat(2); },
    [](const Inputs& in) { return in.numbers.snapshot(in.files.path("snapshots")); },
    [](const Inputs& in) {
      in.numbers.save(in.files.path("saved"), {.overwrite = true});
      return Dataset::load(in.files.path("saved"));
    },
    [](const Inputs& in) {
      return Dataset::csv(
          in.files.of("odd.csv"), {{"id", DType::kInt64}, {"more", DType::kBytes, "none"}},
          {.delimiter = ';', .quotes = false, .header = true, .missing = "NA", .select_columns = {0, 2}},
          {.cycle_length = 2,
           .block_length = 3,
           .max_record_bytes = 1000,
           .damage = {.action = DamagePolicy::kSkip, .max_records = 5, .max_bytes = 99, .max_share = 0.5}});
    },
    [](const Inputs&) {
      return Dataset::rows({{"grid", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, Shape{2, 2}},
                            {"steps", std::vector<std::vector<int32_t>>{{1, 2}, {3, 4, 5, 6}}, Shape{kVaries, 2}}});
    },
    [](const Inputs& in) {
      return in.records.parse_example(
          {fixed_len("none", {0}, DType::kInt64).default_value(std::vector<int64_t>{}),
           fixed_len("gone", {2}, DType::kFloat32).default_value(std::vector<float>{1, 2}),
           fixed_len("away", {}, DType::kBytes).default_value(std::vector<std::string>{"x"})});
    },
    // Bytes that are no text.
    [](const Inputs&) {
      return Dataset::rows({{"record", std::vector<std::string>{"a\xfe"
                                                                "b",
                                                                "\xff\xfe"
                                                                "c"}}})
          .parse_csv({{"first", DType::kBytes}, {"second", DType::kBytes}}, {.delimiter = '\xfe', .missing = "\xf0"});
    },
    [](const Inputs& in) {
      return in.records.parse_example(
          {fixed_len("away", {}, DType::kBytes).default_value(std::vector<std::string>{"\xff"})});
    },
    [](const Inputs& in) { return in.bytes.padded_batch(2, {.value = std::string("\xff")}); },
    // Options that are not the defaults.
    [](const Inputs& in) {
      return Dataset::tfrecord(in.files.shards().with_counts({5, 5}), {.compression = Compression::kNone});
    },
    [](const Inputs& in) {
      return in.records.parse_example({fixed_len("gone", {}, DType::kInt64).default_value(std::vector<int64_t>{7}),
                                       ragged("ids", DType::kInt64, {row_lengths("lengths")}).named("cut"),
                                       ragged("ids", DType::kInt64, {uniform_row_length(3)}).named("threes"),
                                       sparse("at", {"places"}, "ids", DType::kInt64, {5})});
    },
    [](const Inputs& in) {
      return in.records.parse_sequence_example({var_len("ids", DType::kInt64)}, {var_len("steps", DType::kInt64)});
    },
    [](const Inputs& in) {
      return in.bytes
          .filter(known(RowPredicate{
              .name = "whole.pairs",
              .keep = [](const RowView& row) { return row.value<std::string_view>("bytes").size() == 2; }}))
          .decode_raw("bytes", RawType::kBool, {.shape = {{1, 2}}});
    },
    [](const Inputs& in) {
      return in.ids.mask_tokens({.vocab_size = 20,
                                 .mask_token = 4,
                                 .special_tokens = {1, 4},
                                 .probability = 0.5,
                                 .input_ids = "ids",
                                 .attention_mask = "",
                                 .starts_word = std::vector<bool>(20, true),
                                 .spans = MaskSpans{.stop = 0.5, .max_length = 3}});
    },
    [](const Inputs& in) {
      return in.ids.corrupt_spans({.vocab_size = 200, .first_sentinel = 150, .input_ids = "ids"});
    },
    [](const Inputs& in) {
      return in.numbers.modulo("value", 2)
          .rejection_resample(
              {.feature = "value", .target_distribution = {1, 3}, .initial_distribution = std::vector<double>{1, 1}});
    },
    [](const Inputs& in) {
      return in.images.augment_images({.features = {"image"}, .contrast = {0.5, 2}, .clip = {{0, 9}}});
    },
    [](const Inputs& in) {
      return in.rows.padded_batch(2, {.length = PadLength::multiple_of(4),
                                      .features = {{"ids", {.length = PadLength::fixed(6), .value = int64_t{-1}}}}});
    },
    [](const Inputs& in) { return in.images.padded_batch(2, {.value = 0.5}); },
    [](const Inputs& in) { return in.numbers.group_by_window(parity(), two_or_four()); },
    [](const Inputs& in) { return in.ids.window(2, {}, PaddedBatchOptions{.drop_remainder = true}); },
    [](const Inputs& in) { return in.ids.window(2, {}, RaggedBatchOptions{.drop_remainder = true}); },
    [](const Inputs& in) {
      return in.ids.pack(6, {.features = {"ids"}, .value = int64_t{5}, .values = {{"ids", int64_t{9}}}});
    },
    [](const Inputs& in) { return in.numbers.prefetch(2); },
    [](const Inputs& in) { return in.numbers.batch(5); },
    [](const Inputs& in) { return in.rows.padded_batch(2, {.value = int64_t{-1}}); },
    [](const Inputs& in) { return in.rows.ragged_batch(2); },
    [](const Inputs& in) { return in.numbers.batch(5).unbatch(); },
    [](const Inputs& in) { return in.numbers.batch(5).rebatch(4); },
    [](const Inputs& in) {
      return in.ids.bucket_by_sequence_length({"ids"}, {2}, {2, 2});
    },
    [](const Inputs& in) { return in.numbers.group_by_window(parity(), 4); },
    [](const Inputs& in) { return in.numbers.window(3, {.shift = 2}); },
    [](const Inputs& in) { return in.ids.pack(6); },
};

struct Stream {
  std::string hash;
  int64_t elements = 0;
};

Stream run(const Dataset& dataset) {
  const WorkerLimit workers(2);
  StreamHash hash;
  Stream stream;
  Pipeline pipeline = dataset.start({.threads = 2});
  for (; const std::optional<Batch> batch = pipeline.next(); ++stream.elements) hash.add(*batch);
  stream.hash = hash.hex();
  return stream;
}

void add_operators(const google::protobuf::RepeatedPtrField<def::Step>& steps, std::set<std::string>& names) {
  for (const def::Step& step : steps) {
    names.insert(step.GetDescriptor()->FindFieldByNumber(step.operator_case())->name());
    for (const def::Steps& input : step.inputs()) add_operators(input.steps(), names);
  }
}

// What only people write: definitions that we write name the files.
const std::set<std::string> kNotWritten{"millrace.def.Shards.glob", "millrace.def.Shards.globs",
                                        "millrace.def.Shards.counts_from"};

// `message.field` of all fields that are set.
void add_fields(const google::protobuf::Message& message, std::set<std::string>& names) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    names.insert(field->full_name());
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        add_fields(reflection.GetRepeatedMessage(message, field, i), names);
      }
    } else {
      add_fields(reflection.GetMessage(message, field), names);
    }
  }
}

// The same of all fields that there are.
void add_all_fields(const google::protobuf::Descriptor& message, std::set<std::string>& names) {
  for (int i = 0; i < message.field_count(); ++i) {
    const auto* field = message.field(i);
    if (names.insert(field->full_name()).second && field->message_type() != nullptr) {
      add_all_fields(*field->message_type(), names);
    }
  }
}

TEST(WholeDefinition, ADatasetWithEveryOperatorGivesOneStreamAsItIsAsTextAndAsJson) {
  const Inputs inputs;
  std::vector<Dataset> parts;
  for (const Part part : kParts) {
    const Dataset dataset = part(inputs);
    EXPECT_GT(run(dataset).elements, 0) << dataset.explain({.threads = 2});
    parts.push_back(dataset.map(hash_elements()));
  }
  const Dataset whole = Dataset::concatenate(parts);
  const PipelineDef written = PipelineDef::of(whole);

  def::PipelineDef message;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(written.to_text(), &message));
  std::set<std::string> names;
  add_operators(message.steps(), names);
  const auto* operators = def::Step::descriptor()->FindOneofByName("operator");
  for (int i = 0; i < operators->field_count(); ++i) {
    EXPECT_TRUE(names.contains(operators->field(i)->name()))
        << operators->field(i)->name() << ": add a line with it to kParts";
  }

  std::set<std::string> all;
  add_all_fields(*def::PipelineDef::descriptor(), all);
  std::set<std::string> set;
  add_fields(message, set);
  for (const std::string& name : all) {
    if (kNotWritten.contains(name)) continue;
    EXPECT_TRUE(set.contains(name)) << name << ": add a line to kParts in which it is not the default";
  }

  const Stream stream = run(whole);
  EXPECT_GT(stream.elements, static_cast<int64_t>(2 * kParts.size()));
  EXPECT_EQ(run(PipelineDef::from_text(written.to_text()).dataset()).hash, stream.hash);
  EXPECT_EQ(run(PipelineDef::from_json(written.to_json()).dataset()).hash, stream.hash);
  // Another seed somewhere is another stream.
  std::string other = written.to_text();
  const size_t shuffle = other.find("buffer_size: 5");
  ASSERT_NE(shuffle, std::string::npos);
  other.replace(other.find("seed: 3", shuffle), 7, "seed: 4");
  EXPECT_NE(run(PipelineDef::from_text(other).dataset()).hash, stream.hash);
}

}  // namespace
}  // namespace millrace::whole_definition_test
