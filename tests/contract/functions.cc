#include "tests/contract/functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "millrace/pipeline/definition/function_registry.h"
#include "tests/support/encoded_pictures.h"

namespace millrace::test {
namespace {

// The function, registered by its name, which says all that decides it: datasets with it can be written down.
template <typename Function>
Function known(Function function) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  if (names.insert(function.name).second) register_function(function);
  return function;
}

uint64_t mixed(uint64_t digest, uint64_t value) { return (digest ^ value) * 0x100000001b3U; }

// Where `map` puts a feature: in the place of one of that name, or last.
void put(const Schema& before, ModelElement& element, const std::string& name, ModelValue value) {
  const int column = before.find(name);
  if (column < 0) {
    element.values.push_back(std::move(value));
  } else {
    element.values[static_cast<size_t>(column)] = std::move(value);
  }
}

std::vector<int64_t> span_of(uint64_t digest) {
  std::vector<int64_t> span(digest % 4);
  for (size_t i = 0; i < span.size(); ++i) span[i] = static_cast<int64_t>(10 * i + digest % 7);
  return span;
}

}  // namespace

uint64_t digest(const RowView& row) {
  uint64_t sum = 1;
  for (size_t c = 0; c < row.schema().size(); ++c) {
    switch (row.schema()[c].dtype) {
      case DType::kInt32:
        for (const int32_t value : row.values<int32_t>(c)) sum = mixed(sum, static_cast<uint64_t>(int64_t{value}));
        break;
      case DType::kUint8:
        for (const uint8_t value : row.values<uint8_t>(c)) sum = mixed(sum, value);
        break;
      case DType::kInt64:
        for (const int64_t value : row.values<int64_t>(c)) sum = mixed(sum, static_cast<uint64_t>(value));
        break;
      case DType::kFloat32:
        for (const float value : row.values<float>(c)) sum = mixed(sum, std::bit_cast<uint32_t>(value));
        break;
      case DType::kBytes:
        for (const std::string_view value : row.values<std::string_view>(c)) {
          for (const char byte : value) sum = mixed(sum, static_cast<unsigned char>(byte));
        }
        break;
    }
  }
  return sum >> 7;
}

uint64_t digest(const ModelElement& element) {
  uint64_t sum = 1;
  for (const ModelValue& value : element.values) {
    for (const int64_t integer : value.integers) sum = mixed(sum, static_cast<uint64_t>(integer));
    for (const float number : value.floats) sum = mixed(sum, std::bit_cast<uint32_t>(number));
    for (const std::string& text : value.bytes) {
      for (const char byte : text) sum = mixed(sum, static_cast<unsigned char>(byte));
    }
  }
  return sum >> 7;
}

bool digest_is(uint64_t digest, int64_t divisor, int64_t remainder) {
  return digest % static_cast<uint64_t>(divisor) == static_cast<uint64_t>(remainder);
}

RowKey digest_modulo(int64_t divisor) {
  return known(RowKey{.name = fmt::format("digest_modulo({})", divisor), .key = [=](const RowView& row) {
                        return static_cast<int64_t>(digest(row) % static_cast<uint64_t>(divisor)) - 1;
                      }});
}

int64_t digest_modulo(const ModelElement& element, int64_t divisor) {
  return static_cast<int64_t>(digest(element) % static_cast<uint64_t>(divisor)) - 1;
}

WindowSize two_and_key() {
  return known(WindowSize::by_key("two_and_key", [](int64_t key) { return 2 + key; }));
}

int64_t two_and_key(int64_t key) { return 2 + key; }

RowFunction number_rows() {
  return known(RowFunction{
      .name = "number_rows",
      .writes = {{.name = "number", .dtype = DType::kInt64, .shape = {}}},
      .function = [](const RowView& row, RowWriter& out) { out.set("number", 1000 * row.ordinal() + row.epoch()); }});
}

void number_rows(const Schema& before, ModelElement& element, int64_t ordinal) {
  put(before, element, "number", integers({}, {1000 * ordinal + element.epoch}));
}

RowFunction span_rows() {
  return known(RowFunction{.name = "span_rows",
                           .writes = {{.name = "span", .dtype = DType::kInt64, .shape = {kVaries}}},
                           .function = [](const RowView& row, RowWriter& out) {
                             const std::vector<int64_t> span = span_of(digest(row));
                             out.set_values("span", std::span<const int64_t>(span));
                           }});
}

void span_rows(const Schema& before, ModelElement& element) {
  std::vector<int64_t> span = span_of(digest(element));
  const auto length = static_cast<int64_t>(span.size());
  put(before, element, "span", integers({length}, std::move(span)));
}

namespace {

constexpr int64_t kImageValues = 4 * 4 * 3;
constexpr int64_t kLargeValues = 6 * 6;

int64_t image_value(uint64_t digest, int64_t i) { return static_cast<int64_t>((digest >> (i % 13)) + 31 * i) % 256; }

}  // namespace

RowFunction image_rows() {
  return known(RowFunction{.name = "image_rows",
                           .writes = {{.name = "image", .dtype = DType::kUint8, .shape = {4, 4, 3}},
                                      {.name = "large", .dtype = DType::kFloat32, .shape = {6, 6, 1}},
                                      {.name = "label", .dtype = DType::kFloat32, .shape = {3}}},
                           .function =
                               [](const RowView& row, RowWriter& out) {
                                 const uint64_t number = digest(row) % (1 << 30);
                                 const auto image = out.make<uint8_t>("image", std::vector<int64_t>{4, 4, 3});
                                 for (int64_t i = 0; i < kImageValues; ++i) {
                                   image[static_cast<size_t>(i)] = static_cast<uint8_t>(image_value(number, i));
                                 }
                                 const auto large = out.make<float>("large", std::vector<int64_t>{6, 6, 1});
                                 for (int64_t i = 0; i < kLargeValues; ++i) {
                                   large[static_cast<size_t>(i)] = static_cast<float>(image_value(number, i)) / 256;
                                 }
                                 const auto label = out.make<float>("label", std::vector<int64_t>{3});
                                 for (size_t c = 0; c < 3; ++c) label[c] = c == number % 3 ? 1.0F : 0.0F;
                               },
                           .keep_others = false});
}

void image_rows(ModelElement& element) {
  const uint64_t number = digest(element) % (1 << 30);
  std::vector<int64_t> image;
  for (int64_t i = 0; i < kImageValues; ++i) image.push_back(image_value(number, i));
  std::vector<float> large;
  for (int64_t i = 0; i < kLargeValues; ++i) large.push_back(static_cast<float>(image_value(number, i)) / 256);
  std::vector<float> label(3, 0.0F);
  label[number % 3] = 1.0F;
  element.values = {integers({4, 4, 3}, std::move(image), DType::kUint8), floats({6, 6, 1}, std::move(large)),
                    floats({3}, std::move(label))};
}

namespace {

std::string encoded_picture(uint64_t digest) {
  if (digest % 9 == 4) return "no picture";
  const bool is_jpeg = digest % 5 == 0;
  Picture picture{.height = static_cast<int>(1 + digest % 3),
                  .width = static_cast<int>(1 + digest / 3 % 4),
                  .channels = !is_jpeg && digest % 5 < 3 ? 4 : 3};
  for (int64_t i = 0; i < picture.height * picture.width * picture.channels; ++i) {
    picture.pixels.push_back(static_cast<uint8_t>(image_value(digest, i)));
  }
  const std::string exif = exif_data(static_cast<int>(1 + digest / 16 % 8));
  constexpr uint8_t kApplication1 = 0xe1;
  if (is_jpeg) return with_segment(written_jpeg(picture), kApplication1, std::string("Exif\0\0", 6) + exif);
  return written_png(picture, {.chunks = png_chunk("eXIf", exif)});
}

}  // namespace

RowFunction picture_rows() {
  return known(
      RowFunction{.name = "picture_rows",
                  .writes = {{.name = "picture", .dtype = DType::kBytes, .shape = {}}},
                  .function = [](const RowView& row,
                                 RowWriter& out) { out.set("picture", encoded_picture(digest(row) % (1 << 30))); },
                  .keep_others = false});
}

void picture_rows(ModelElement& element) {
  element.values = {bytes({}, {encoded_picture(digest(element) % (1 << 30))})};
}

RowFunction copied_records() {
  return known(RowFunction{.name = "copied_records",
                           .writes = {{.name = "record", .dtype = DType::kBytes, .shape = {kVaries}}},
                           .function =
                               [](const RowView& row, RowWriter& out) {
                                 const std::vector<std::string_view> copies(digest(row) % 4,
                                                                            row.values<std::string_view>(0)[0]);
                                 out.set_values("record", std::span<const std::string_view>(copies));
                               },
                           .keep_others = false});
}

void copied_records(ModelElement& element) {
  const auto count = static_cast<int64_t>(digest(element) % 4);
  element.values = {bytes({count}, std::vector<std::string>(static_cast<size_t>(count), element.values[0].bytes[0]))};
}

RowFunction fail_rows(int64_t divisor, int64_t remainder) {
  return known(RowFunction{.name = fmt::format("fail_rows({}, {})", divisor, remainder),
                           .writes = {},
                           .function = [=](const RowView& row, RowWriter&) {
                             if (digest_is(digest(row), divisor, remainder)) throw std::runtime_error("not this one");
                           }});
}

void fail_rows(ModelElement& element, int64_t divisor, int64_t remainder) {
  if (digest_is(digest(element), divisor, remainder)) element.fail(ErrorCode::kUserFunction);
}

DatasetFunction few_numbers() {
  DatasetFunction function;
  function.name = "few_numbers";
  function.gives = {{.name = "value", .dtype = DType::kInt64, .shape = {}}};
  function.make = [](const RowView& row) {
    const uint64_t number = digest(row);
    if (number % 7 == 3) throw std::runtime_error("not this one");
    const auto start = static_cast<int64_t>(number % 40);
    return Dataset::range(start, start + static_cast<int64_t>(number % 4))
        .map(fail_rows(9, 1))
        .shuffle(3, {.seed = 2})
        .prefetch(1)
        .map(number_rows())
        .map(RowFunction{.name = "joined",
                         .writes = {{.name = "value", .dtype = DType::kInt64, .shape = {}}},
                         .function =
                             [](const RowView& value, RowWriter& out) {
                               out.set("value", 100 * value.value<int64_t>("value") + value.value<int64_t>("number"));
                             },
                         .keep_others = false});
  };
  return known(function);
}

std::optional<Model> few_numbers(const ModelElement& element) {
  const uint64_t number = digest(element);
  if (number % 7 == 3) return std::nullopt;
  const auto start = static_cast<int64_t>(number % 40);
  Model model = model_of_range(start, start + static_cast<int64_t>(number % 4), 1);
  model = model_of_map(std::move(model), [](ModelElement& value, int64_t) { fail_rows(value, 9, 1); });
  model = model_of_shuffle(std::move(model), 3, {.seed = 2}, 0);
  return model_of_map(std::move(model), [](ModelElement& value, int64_t ordinal) {
    value.values[0].integers[0] = 100 * value.values[0].integers[0] + 1000 * ordinal + value.epoch;
  });
}

namespace {

// Forged states carry any numbers on: those here wrap around.
int64_t sum(int64_t a, uint64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + b); }

// False: the function throws.
bool add_up(ScanNumbers& carried, uint64_t digest, int64_t divisor, int64_t remainder) {
  carried.integers[0] = sum(carried.integers[0], ~uint64_t{0});
  carried.integers[1] = sum(carried.integers[1], digest % 100);
  if (digest_is(digest, divisor, remainder)) return false;
  carried.reals[0] += 0.5;
  return true;
}

int64_t sum_of(const ScanNumbers& carried) {
  const auto integers = 1000 * static_cast<uint64_t>(carried.integers[1]) - static_cast<uint64_t>(carried.integers[0]);
  const double real = 1e7 * carried.reals[0];
  return sum(std::abs(real) < 1e18 ? static_cast<int64_t>(real) : 0, integers);
}

}  // namespace

std::vector<bool> even_ids() {
  std::vector<bool> even(50);
  for (size_t id = 0; id < even.size(); id += 2) even[id] = true;
  return even;
}

ScanFunction add_up_rows(int64_t divisor, int64_t remainder) {
  ScanFunction scan;
  scan.name = fmt::format("add_up_rows({}, {})", divisor, remainder);
  scan.writes = {{.name = "number", .dtype = DType::kInt64, .shape = {}}};
  scan.initial.integers = {-3, 0};
  scan.initial.reals = {-0.5};
  scan.function = [=](ScanNumbers& carried, const RowView& row, RowWriter& out) {
    if (!add_up(carried, digest(row), divisor, remainder)) throw std::runtime_error("not this one");
    out.set("number", sum_of(carried));
  };
  return known(scan);
}

void add_up_rows(const Schema& before, ScanNumbers& carried, ModelElement& element, int64_t divisor,
                 int64_t remainder) {
  if (!add_up(carried, digest(element), divisor, remainder)) return element.fail(ErrorCode::kUserFunction);
  put(before, element, "number", integers({}, {sum_of(carried)}));
}

namespace {

int64_t num_some_rows(int64_t count, int64_t epoch) { return std::max<int64_t>(0, count - epoch); }
bool some_row_fails(int64_t count, int64_t epoch, int64_t i) { return (i * 5 + epoch + count) % 11 == 7; }
int64_t id_of_some_row(int64_t epoch, int64_t i) { return i * i - 30 * epoch; }
std::vector<int64_t> tokens_of_some_row(int64_t epoch, int64_t i) {
  std::vector<int64_t> tokens(static_cast<size_t>((i + epoch) % 4));
  for (size_t p = 0; p < tokens.size(); ++p) tokens[p] = (i * 3 + static_cast<int64_t>(p) * 11) % 50;
  return tokens;
}
std::string word_of_some_row(int64_t i) {
  return std::string(static_cast<size_t>(i * 7 % 5), static_cast<char>('a' + i % 26));
}

}  // namespace

Generator some_rows(int64_t count, GeneratorRuns::Rule rule) {
  const auto from = [count](const Iteration& iteration, std::shared_ptr<int64_t> next) -> NextElement {
    return [=, epoch = iteration.epoch](RowWriter& out) {
      if (*next == num_some_rows(count, epoch)) return false;
      const int64_t i = (*next)++;
      out.set("id", id_of_some_row(epoch, i));
      if (some_row_fails(count, epoch, i)) throw std::runtime_error("not this one");
      const std::vector<int64_t> tokens = tokens_of_some_row(epoch, i);
      out.set_values("tokens", std::span<const int64_t>(tokens));
      out.set("word", word_of_some_row(i));
      return true;
    };
  };
  const auto runs = [&]() -> GeneratorRuns {
    switch (rule) {
      case GeneratorRuns::Rule::kSeekable:
        return GeneratorRuns::seekable([from](const Iteration& iteration, int64_t first) {
          return from(iteration, std::make_shared<int64_t>(first));
        });
      case GeneratorRuns::Rule::kSaved:
        return GeneratorRuns::saved([from](const Iteration& iteration, std::optional<std::string_view> saved) {
          auto next = std::make_shared<int64_t>(saved ? std::stoll(std::string(*saved)) : 0);
          return SavingRun{.next = from(iteration, next), .save = [next] { return std::to_string(*next); }};
        });
      default: break;
    }
    return GeneratorRuns::replayed(
        [from](const Iteration& iteration) { return from(iteration, std::make_shared<int64_t>(0)); });
  };
  return known(Generator{.name = fmt::format("some_rows({}, {})", count, static_cast<int>(rule)),
                         .gives = {{.name = "id", .dtype = DType::kInt64, .shape = {}},
                                   {.name = "tokens", .dtype = DType::kInt64, .shape = {kVaries}},
                                   {.name = "word", .dtype = DType::kBytes, .shape = {}}},
                         .runs = runs()});
}

Model some_rows(int64_t count) {
  return [count](const Iteration& iteration) {
    std::vector<ModelElement> elements;
    for (int64_t i = 0; i < num_some_rows(count, iteration.epoch); ++i) {
      ModelElement& element = elements.emplace_back();
      if (some_row_fails(count, iteration.epoch, i)) {
        element.fail(ErrorCode::kUserFunction);
        continue;
      }
      std::vector<int64_t> tokens = tokens_of_some_row(iteration.epoch, i);
      const auto length = static_cast<int64_t>(tokens.size());
      element.values = {integers({}, {id_of_some_row(iteration.epoch, i)}), integers({length}, std::move(tokens)),
                        bytes({}, {word_of_some_row(i)})};
    }
    return model_of_elements(std::move(elements))(iteration);
  };
}

Dataset negate_blocks(const Dataset& input, const std::string& feature) {
  return input.map(known(
      BlockFunction{.name = fmt::format("negate_blocks(\"{}\") of {}", feature, input.schema().to_string()),
                    .schema = input.plan()->op->schema(),
                    .function = [feature](Block block, BufferPool& pool) {
                      Column& column = block.mutable_columns()[static_cast<size_t>(block.schema()->column(feature))];
                      Column negated = Column::like(pool, DType::kInt64, column);
                      const auto from = column.values<int64_t>();
                      const auto to = negated.mutable_values<int64_t>();
                      // The places of errors hold anything.
                      for (size_t i = 0; i < from.size(); ++i)
                        to[i] = static_cast<int64_t>(0 - static_cast<uint64_t>(from[i]));
                      column = std::move(negated);
                      return block;
                    }}));
}

RowPredicate drop_rows(int64_t divisor, int64_t remainder) {
  return known(RowPredicate{.name = fmt::format("drop_rows({}, {})", divisor, remainder),
                            .keep = [=](const RowView& row) { return !digest_is(digest(row), divisor, remainder); }});
}

BlockPredicate drop_in_blocks(int64_t divisor, int64_t remainder) {
  return known(BlockPredicate{.name = fmt::format("drop_in_blocks({}, {})", divisor, remainder),
                              .decide = [=](const Block& block, std::span<uint8_t> keep) {
                                for (size_t i = 0; i < keep.size(); ++i) {
                                  if (block.error_at(i) != nullptr) continue;
                                  keep[i] = digest_is(digest(RowView(block, i)), divisor, remainder) ? 0 : 1;
                                }
                              }});
}

}  // namespace millrace::test
