#include "tests/contract/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "millrace/formats/random/keyed_permutation.h"
#include "millrace/ops/flow/shuffle_keys.h"
#include "millrace/ops/images/mixing_draws.h"
#include "millrace/ops/sources/shard_order.h"
#include "tests/support/operator_chain.h"

namespace millrace::test {

void ModelValue::append(const ModelValue& other) {
  integers.insert(integers.end(), other.integers.begin(), other.integers.end());
  floats.insert(floats.end(), other.floats.begin(), other.floats.end());
  bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
}

size_t ModelShape::size() const {
  if (!is_ragged()) return static_cast<size_t>(num_values(shape));
  size_t sum = 0;
  for (const ModelShape& row : rows) sum += row.size();
  return sum;
}

void ModelValue::take_rows_away() {
  shape[0] = 0;
  rows.clear();
  integers.clear();
  floats.clear();
  bytes.clear();
}

ModelValue ModelValue::part(size_t first, size_t count, const ModelShape& of) const {
  ModelValue some;
  some.dtype = dtype;
  some.shape = of.shape;
  some.rows = of.rows;
  const auto copy = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first);
    to.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  copy(integers, some.integers);
  copy(floats, some.floats);
  copy(bytes, some.bytes);
  return some;
}

ModelValue integers(Shape shape, std::vector<int64_t> values, DType dtype) {
  ModelValue value;
  value.dtype = dtype;
  value.shape = std::move(shape);
  value.integers = std::move(values);
  return value;
}

ModelValue floats(Shape shape, std::vector<float> values) {
  ModelValue value;
  value.dtype = DType::kFloat32;
  value.shape = std::move(shape);
  value.floats = std::move(values);
  return value;
}

ModelValue bytes(Shape shape, std::vector<std::string> values) {
  ModelValue value;
  value.dtype = DType::kBytes;
  value.shape = std::move(shape);
  value.bytes = std::move(values);
  return value;
}

namespace {

template <typename T>
std::string print_nested(std::span<const T> values, const ModelShape& shape) {
  if (!shape.is_ragged()) return print_values(values, shape.shape);
  std::string text = "[";
  for (const ModelShape& row : shape.rows) {
    if (text.size() > 1) text += ',';
    text += print_nested(values.first(row.size()), row);
    values = values.subspan(row.size());
  }
  return text + "]";
}

}  // namespace

std::string print(const Schema& schema, const ModelElement& element) {
  if (element.error) return fmt::format("error: {}", to_string(*element.error));
  std::string text;
  for (size_t c = 0; c < element.values.size(); ++c) {
    const ModelValue& value = element.values[c];
    if (c > 0) text += ' ';
    text += schema[c].name + '=';
    const ModelShape shape{value.shape, value.rows};
    switch (value.dtype) {
      case DType::kInt32:
      case DType::kUint8:
      case DType::kInt64: text += print_nested(std::span<const int64_t>(value.integers), shape); break;
      case DType::kFloat32: text += print_nested(std::span<const float>(value.floats), shape); break;
      case DType::kBytes: text += print_nested(std::span<const std::string>(value.bytes), shape); break;
    }
  }
  return text;
}

Model model_of_elements(std::vector<ModelElement> elements) {
  return [all = std::make_shared<const std::vector<ModelElement>>(std::move(elements))](const Iteration& iteration) {
    return [all, epoch = iteration.epoch, next = size_t{0}]() mutable -> std::optional<ModelElement> {
      if (next == all->size()) return std::nullopt;
      ModelElement element = (*all)[next++];
      element.epoch = epoch;
      return element;
    };
  };
}

Model model_of_range(int64_t start, int64_t stop, int64_t step) {
  std::vector<ModelElement> elements;
  for (int64_t value = start; step > 0 ? value < stop : value > stop; value += step) {
    ModelElement& element = elements.emplace_back();
    element.values = {integers({}, {value})};
  }
  return model_of_elements(std::move(elements));
}

Model model_of_interleave_function(Model input, std::function<std::optional<Model>(const ModelElement&)> make,
                                   size_t cycle_length, size_t block_length) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), cycle = std::vector<ModelStream>(cycle_length), ended = false,
            ordinal = uint64_t{0}, turn = size_t{0}, taken = size_t{0}]() mutable -> std::optional<ModelElement> {
      const auto end_turn = [&] {
        taken = 0;
        turn = (turn + 1) % cycle_length;
      };
      while (true) {
        if (cycle[turn]) {
          std::optional<ModelElement> element = cycle[turn]();
          if (!element) {
            cycle[turn] = nullptr;
            end_turn();
            continue;
          }
          if (!element->error && ++taken == block_length) end_turn();
          element->epoch = iteration.epoch;
          return element;
        }
        if (ended) {
          if (std::none_of(cycle.begin(), cycle.end(), [](const ModelStream& s) { return bool(s); })) {
            return std::nullopt;
          }
          end_turn();
          continue;
        }
        std::optional<ModelElement> element = stream();
        ended = !element;
        if (ended) continue;
        element->epoch = iteration.epoch;
        if (element->is_note) return element;
        const uint64_t number = ordinal++;
        const std::optional<Model> made = element->error ? std::nullopt : make(*element);
        if (made) {
          cycle[turn] = (*made)(iteration.nested(number));
          continue;
        }
        if (!element->error) element->fail(ErrorCode::kUserFunction);
        return element;
      }
    };
  };
}

Model model_of_flat_map(Model input, std::function<std::optional<Model>(const ModelElement&)> make) {
  return model_of_interleave_function(std::move(input), std::move(make), 1, SIZE_MAX);
}

Model model_of_interleave(std::vector<Model> inputs, size_t cycle_length, size_t block_length) {
  const Model numbers = model_of_range(0, static_cast<int64_t>(inputs.size()), 1);
  const auto numbered = [inputs = std::move(inputs)](const ModelElement& number) -> std::optional<Model> {
    return inputs[static_cast<size_t>(number.values[0].integers[0])];
  };
  return model_of_interleave_function(numbers, numbered, cycle_length, block_length);
}

Model model_of_concatenate(std::vector<Model> inputs) {
  return [=](const Iteration& iteration) {
    return [=, current = size_t{0}, stream = ModelStream()]() mutable -> std::optional<ModelElement> {
      for (; current < inputs.size(); ++current, stream = nullptr) {
        if (!stream) stream = inputs[current](iteration.nested(current));
        if (std::optional<ModelElement> element = stream()) {
          element->epoch = iteration.epoch;
          return element;
        }
      }
      return std::nullopt;
    };
  };
}

Model model_of_zip(std::vector<Model> inputs) {
  return [=](const Iteration& iteration) {
    std::vector<ModelStream> streams;
    for (const Model& input : inputs) streams.push_back(input(iteration));
    return [=, parts = std::vector<ModelElement>(), ended = false]() mutable -> std::optional<ModelElement> {
      // Of each input in order the next element; its notes go out before.
      while (!ended && parts.size() < streams.size()) {
        std::optional<ModelElement> part = streams[parts.size()]();
        if (part) part->epoch = iteration.epoch;
        if (part && part->is_note) return part;
        ended = !part;
        if (part) parts.push_back(std::move(*part));
      }
      if (parts.empty()) return std::nullopt;
      ModelElement whole = parts[0];
      for (const ModelElement& part : parts) whole.rows = std::max(whole.rows, part.rows);
      for (size_t i = 1; i < parts.size(); ++i) {
        if (whole.error) break;
        if (parts[i].error) {
          whole.fail(*parts[i].error);
        } else {
          whole.values.insert(whole.values.end(), parts[i].values.begin(), parts[i].values.end());
        }
      }
      parts.clear();
      return ended && !whole.error ? std::nullopt : std::optional(std::move(whole));
    };
  };
}

namespace {

// An input, an error, or nothing at the end. It is told which inputs have ended.
using ModelChoices = std::function<std::optional<std::variant<size_t, ModelElement>>(const std::vector<bool>& ended)>;

Model model_of_selection(std::vector<Model> inputs, std::vector<bool> unused,
                         std::function<ModelChoices(const Iteration&)> choices, bool stop_on_empty) {
  return [=](const Iteration& iteration) {
    std::vector<ModelStream> streams;
    for (size_t i = 0; i < inputs.size(); ++i) streams.push_back(inputs[i](iteration.nested(i)));
    return [=, choose = choices(iteration), ended = unused, over = false,
            chosen = std::optional<size_t>()]() mutable -> std::optional<ModelElement> {
      while (!over) {
        if (!chosen) {
          auto choice = choose(ended);
          if (!choice) break;
          if (auto* error = std::get_if<ModelElement>(&*choice)) {
            error->epoch = iteration.epoch;
            return *error;
          }
          chosen = std::get<size_t>(*choice);
        }
        std::optional<ModelElement> element;
        if (!ended[*chosen]) {
          element = streams[*chosen]();
          ended[*chosen] = !element;
          over = (!element && stop_on_empty) || std::find(ended.begin(), ended.end(), false) == ended.end();
        }
        if (!element || !element->is_note) chosen.reset();
        if (!element) continue;
        element->epoch = iteration.epoch;
        return element;
      }
      over = true;
      return std::nullopt;
    };
  };
}

}  // namespace

Model model_of_choose(std::vector<Model> inputs, Model choices, bool stop_on_empty) {
  const size_t count = inputs.size();
  const auto choose = [=](const Iteration& iteration) -> ModelChoices {
    return [=, stream = choices(iteration)](const std::vector<bool>&) {
      std::optional<std::variant<size_t, ModelElement>> choice;
      std::optional<ModelElement> element = stream();
      if (!element) return choice;
      if (!element->error) {
        const int64_t number = element->values[0].integers[0];
        if (number >= 0 && number < static_cast<int64_t>(count)) {
          choice = static_cast<size_t>(number);
          return choice;
        }
        element->fail(ErrorCode::kOutOfRange);
      }
      choice = std::move(*element);
      return choice;
    };
  };
  return model_of_selection(std::move(inputs), std::vector<bool>(count), choose, stop_on_empty);
}

Model model_of_sample(std::vector<Model> inputs, SampleOptions options, uint64_t occurrence) {
  if (options.weights.empty()) options.weights.assign(inputs.size(), 1);
  std::vector<bool> unused;
  for (const double weight : options.weights) unused.push_back(weight == 0);
  const auto choose = [=](const Iteration& iteration) -> ModelChoices {
    const Iteration drawn{options.rerandomize_each_iteration ? iteration.epoch : 0, iteration.path};
    const CounterRng rng(options.seed, operator_id("sample_from_datasets", occurrence), drawn);
    return [=, draw = uint64_t{0}](const std::vector<bool>& ended) mutable {
      double sum = 0;
      for (size_t i = 0; i < ended.size(); ++i) sum += ended[i] ? 0 : options.weights[i];
      double place = sum * (static_cast<double>(rng.bits(draw++) >> 11) / 9007199254740992.0);
      // Weights of quarters, so sums are exact.
      size_t last = 0;
      for (size_t i = 0; i < ended.size(); ++i) {
        if (ended[i]) continue;
        last = i;
        if (place < options.weights[i]) break;
        place -= options.weights[i];
      }
      return std::optional<std::variant<size_t, ModelElement>>(last);
    };
  };
  return model_of_selection(std::move(inputs), std::move(unused), choose, options.stop_on_empty);
}

Model model_of_shards(std::vector<Model> shards, size_t cycle_length, size_t block_length,
                      std::optional<uint64_t> shuffled) {
  return [=](const Iteration& iteration) {
    std::vector<Model> ordered = shards;
    if (shuffled) {
      const std::vector<size_t> order = permutation(shards.size(), *shuffled, iteration);
      for (size_t i = 0; i < order.size(); ++i) ordered[i] = shards[order[i]];
    }
    return model_of_interleave(std::move(ordered), cycle_length, block_length)(iteration);
  };
}

Model model_of_global_shuffle(std::vector<Model> shards, uint64_t seed, bool reshuffle_each_iteration) {
  return [=](const Iteration& iteration) {
    std::vector<ModelElement> all;
    for (const Model& shard : shards) {
      const ModelStream stream = shard(iteration);
      while (std::optional<ModelElement> element = stream()) all.push_back(std::move(*element));
    }
    const KeyedPermutation order(all.size(), seed, {reshuffle_each_iteration ? iteration.epoch : 0, iteration.path});
    return [=, position = uint64_t{0}]() mutable -> std::optional<ModelElement> {
      if (position == all.size()) return std::nullopt;
      return all[order(position++)];
    };
  };
}

Model model_of_skipped_damage(Model shards, std::optional<int64_t> max_records) {
  return [=](const Iteration& iteration) {
    return [=, stream = shards(iteration), num_skipped = int64_t{0}]() mutable -> std::optional<ModelElement> {
      std::optional<ModelElement> element = stream();
      if (!element || !element->error) return element;
      if (max_records && ++num_skipped > *max_records) {
        element->fail(ErrorCode::kDamageBudget);
      } else {
        element->is_note = true;
      }
      return element;
    };
  };
}

Model model_of_assert_cardinality(Model input, int64_t count) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), seen = int64_t{0}, failed = false,
            last = ModelElement()]() mutable -> std::optional<ModelElement> {
      if (failed) return std::nullopt;
      std::optional<ModelElement> element = stream();
      if (element) last = *element;
      const bool too_many = element && !element->error && ++seen > count;
      if (too_many || (!element && seen < count)) {
        failed = true;
        last.fail(ErrorCode::kCardinality);
        last.is_note = false;
        return last;
      }
      return element;
    };
  };
}

Model model_of_cache(Model input) {
  return [=](const Iteration& iteration) {
    return [stream = input({.epoch = 0, .path = iteration.path}),
            epoch = iteration.epoch]() mutable -> std::optional<ModelElement> {
      std::optional<ModelElement> element = stream();
      // What was left out is told in the first epoch.
      while (epoch > 0 && element && element->is_note) element = stream();
      if (element) element->epoch = std::max(element->epoch, epoch);
      return element;
    };
  };
}

Model model_of_take_while(Model input, std::function<bool(const ModelElement&)> keep) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), over = false]() mutable -> std::optional<ModelElement> {
      if (over) return std::nullopt;
      std::optional<ModelElement> element = stream();
      over = element && !element->error && !keep(*element);
      return over ? std::nullopt : element;
    };
  };
}

Model model_of_enumerate(Model input, int64_t start, size_t column) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), next = start]() mutable -> std::optional<ModelElement> {
      std::optional<ModelElement> element = stream();
      if (!element || element->is_note) return element;
      if (!element->error) {
        if (column == element->values.size()) element->values.emplace_back();
        element->values[column] = integers({}, {next});
      }
      ++next;
      return element;
    };
  };
}

Model model_of_scan(Model input, ScanNumbers initial, std::function<void(ScanNumbers&, ModelElement&)> change) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), carried = initial]() mutable -> std::optional<ModelElement> {
      std::optional<ModelElement> element = stream();
      if (!element || element->error) return element;
      const ScanNumbers before = carried;
      change(carried, *element);
      if (element->error) carried = before;
      return element;
    };
  };
}

Model model_of_unique(Model input, size_t column) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), seen = std::vector<ModelValue>()]() mutable -> std::optional<ModelElement> {
      while (std::optional<ModelElement> element = stream()) {
        if (element->error) return element;
        const ModelValue& value = element->values[column];
        if (std::find(seen.begin(), seen.end(), value) != seen.end()) continue;
        seen.push_back(value);
        return element;
      }
      return std::nullopt;
    };
  };
}

Model model_of_rejection_resample(Model input, RejectionResampleOptions options, uint64_t occurrence, size_t column) {
  return [=](const Iteration& iteration) {
    const bool counts = options.initial_distribution.empty();
    std::vector<double> initial = options.initial_distribution;
    if (counts) initial.assign(options.target_distribution.size(), 10);
    const CounterRng rng(options.seed, operator_id("rejection_resample", occurrence), iteration);
    return [=, stream = input(iteration), number = uint64_t{0}]() mutable -> std::optional<ModelElement> {
      while (std::optional<ModelElement> element = stream()) {
        if (element->is_note) return element;
        const uint64_t word = rng.words(number++)[0];
        if (element->error) return element;
        const int64_t one_class = element->values[column].integers[0];
        if (one_class < 0 || one_class >= static_cast<int64_t>(initial.size())) {
          element->fail(ErrorCode::kOutOfRange);
          return element;
        }
        const auto wanted = [&](size_t c) {
          return options.target_distribution[c] == 0 ? 0 : options.target_distribution[c] / initial[c];
        };
        if (counts) ++initial[static_cast<size_t>(one_class)];
        double most = 0;
        for (size_t c = 0; c < initial.size(); ++c) most = std::max(most, wanted(c));
        if (word < chance(wanted(static_cast<size_t>(one_class)) / most)) return element;
      }
      return std::nullopt;
    };
  };
}

Model model_of_take(Model input, int64_t count) {
  if (count < 0) return input;
  return [=](const Iteration& iteration) {
    return [stream = input(iteration), left = count]() mutable -> std::optional<ModelElement> {
      if (left == 0) return std::nullopt;
      std::optional<ModelElement> element = stream();
      if (element && !element->error) --left;
      return element;
    };
  };
}

Model model_of_skip(Model input, int64_t count) {
  if (count < 0) return model_of_elements({});
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), left = count]() mutable -> std::optional<ModelElement> {
      // An error on the way goes out, and the skipping begins anew.
      for (; left > 0; --left) {
        std::optional<ModelElement> element = stream();
        if (element && element->error && !element->is_note) left = count;
        if (!element || element->error) return element;
      }
      return stream();
    };
  };
}

Model model_of_shard(Model input, int64_t num_shards, int64_t index) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), to_skip = index, left = index]() mutable -> std::optional<ModelElement> {
      // As in skip; once the way is clear, an error in the wanted place does not send it back.
      for (; left > 0; --left) {
        std::optional<ModelElement> element = stream();
        if (element && element->error && !element->is_note) left = to_skip;
        if (!element || element->error) return element;
      }
      std::optional<ModelElement> element = stream();
      if (element) to_skip = left = element->error ? 0 : num_shards - 1;
      return element;
    };
  };
}

Model model_of_repeat(Model input, int64_t count) {
  return [=](const Iteration& outer) {
    Iteration inner = outer;
    if (count >= 0) {
      inner.epoch *= count;
    } else if (outer.epoch > 0) {
      inner = {.epoch = 0, .path = outer.nested(static_cast<uint64_t>(outer.epoch)).path};
    }
    return [=, done = int64_t{0}, empty = true, stream = ModelStream()]() mutable -> std::optional<ModelElement> {
      while (count < 0 || done < count) {
        if (!stream) {
          stream = input(inner);
          empty = true;
        }
        if (std::optional<ModelElement> element = stream()) {
          empty = empty && element->is_note;
          element->epoch = std::max(element->epoch, inner.epoch);
          return element;
        }
        if (empty && count < 0) return std::nullopt;
        stream = nullptr;
        ++inner.epoch;
        ++done;
      }
      return std::nullopt;
    };
  };
}

Model model_of_shuffle(Model input, int64_t buffer_size, ShuffleOptions options, uint64_t occurrence) {
  return [=](const Iteration& iteration) {
    const ShuffleKeys keys(buffer_size, options.seed, iteration, options.reshuffle_each_iteration, occurrence);
    return [=, stream = input(iteration), held = std::map<std::pair<uint64_t, int64_t>, ModelElement>(),
            num_read = int64_t{0}, ended = false]() mutable -> std::optional<ModelElement> {
      // Whatever is read from now on has a key of at least the number of rows read.
      const auto sure = [&] {
        return !held.empty() && held.begin()->first.first < static_cast<uint64_t>(num_read)
                                                                << ShuffleKeys::kFractionBits;
      };
      while (!ended && !sure()) {
        if (std::optional<ModelElement> element = stream()) {
          held.emplace(std::pair(keys.key(num_read), num_read), std::move(*element));
          ++num_read;
        } else {
          ended = true;
        }
      }
      if (held.empty()) return std::nullopt;
      return std::move(held.extract(held.begin()).mapped());
    };
  };
}

Model model_of_damage_budget(Model input, int64_t max_records) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), num_notes = int64_t{0}]() mutable -> std::optional<ModelElement> {
      std::optional<ModelElement> element = stream();
      if (!element || !element->is_note || ++num_notes <= max_records) return element;
      element->fail(ErrorCode::kDamageBudget);
      element->is_note = false;
      return element;
    };
  };
}

Model model_of_ignore_errors(Model input) {
  return [=](const Iteration& iteration) {
    return [stream = input(iteration)]() -> std::optional<ModelElement> {
      while (std::optional<ModelElement> element = stream()) {
        if (!element->error || element->is_note) return element;
      }
      return std::nullopt;
    };
  };
}

Model model_of_filter(Model input, std::function<bool(const ModelElement&)> keep) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration)]() -> std::optional<ModelElement> {
      while (std::optional<ModelElement> element = stream()) {
        if (element->error || keep(*element)) return element;
      }
      return std::nullopt;
    };
  };
}

Model model_of_map(Model input, std::function<void(ModelElement&, int64_t)> change) {
  return model_of_map(std::move(input), [change = std::move(change)](ModelElement& element, int64_t ordinal,
                                                                     const Iteration&) { change(element, ordinal); });
}

Model model_of_map(Model input, std::function<void(ModelElement&, int64_t, const Iteration&)> change) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), ordinal = int64_t{0}]() mutable -> std::optional<ModelElement> {
      std::optional<ModelElement> element = stream();
      if (!element) return element;
      if (!element->error) change(*element, ordinal, iteration);
      ordinal += element->rows;
      return element;
    };
  };
}

namespace {

// Of a row of an element: its number in the stream; of rows beyond those that are counted there, one far from all.
uint64_t number_of_row(const ModelElement& element, int64_t ordinal, size_t row) {
  const auto counted = static_cast<size_t>(element.rows);
  return static_cast<uint64_t>(ordinal) + row % counted + (uint64_t{row / counted} << 40);
}

}  // namespace

Model model_of_columns(Model input, std::vector<size_t> columns) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    std::vector<ModelValue> values;
    for (const size_t c : columns) values.push_back(element.values[c]);
    element.values = std::move(values);
  });
}

namespace {

// The values [first, last) of a vector.
ModelValue values_between(const ModelValue& vector, size_t first, size_t last) {
  return vector.part(first, last - first, {{static_cast<int64_t>(last - first)}, {}});
}

}  // namespace

Model model_of_truncate(Model input, std::vector<size_t> columns, int64_t head, int64_t tail, bool marks) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    const size_t length = element.values[columns[0]].size();
    for (const size_t c : columns) {
      if (element.values[c].size() != length) return element.fail(ErrorCode::kWrongShape);
    }
    if (static_cast<int64_t>(length) <= head + tail + (marks ? 1 : 0)) return;
    for (const size_t c : columns) {
      ModelValue& vector = element.values[c];
      ModelValue cut = values_between(vector, 0, static_cast<size_t>(head));
      if (marks && vector.dtype == DType::kFloat32) cut.floats.push_back(7);
      if (marks && vector.dtype == DType::kBytes) cut.bytes.push_back("cut");
      if (marks && is_integer(vector.dtype)) cut.integers.push_back(7);
      cut.append(values_between(vector, length - static_cast<size_t>(tail), length));
      cut.shape = {static_cast<int64_t>(cut.size())};
      vector = std::move(cut);
    }
  });
}

Model model_of_truncate_pair(Model input, size_t first, size_t second, int64_t length) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    size_t left = element.values[first].size();
    size_t right = element.values[second].size();
    while (left + right > static_cast<size_t>(length)) (left > right ? left : right) -= 1;
    element.values[first] = values_between(element.values[first], 0, left);
    element.values[second] = values_between(element.values[second], 0, right);
  });
}

namespace {

ModelElement batch_of(const std::vector<ModelElement>& rows, const ModelGather& gather) {
  ModelElement batch;
  batch.epoch = rows[0].epoch;
  batch.rows = static_cast<int64_t>(rows.size()) * rows[0].rows;
  gather(rows, batch);
  return batch;
}

Model model_of_gathering(Model input, int64_t size, bool drop_remainder, ModelGather gather) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), ended = false,
            open = std::vector<ModelElement>()]() mutable -> std::optional<ModelElement> {
      while (!ended && static_cast<int64_t>(open.size()) < size) {
        std::optional<ModelElement> element = stream();
        if (!element) {
          ended = true;
        } else if (element->error) {
          element->rows *= size;
          if (!element->is_note) open.clear();  // lost
          return element;
        } else {
          open.push_back(std::move(*element));
        }
      }
      if (open.empty() || (drop_remainder && static_cast<int64_t>(open.size()) < size)) return std::nullopt;
      ModelElement batch = batch_of(open, gather);
      open.clear();
      return batch;
    };
  };
}

// Writes a value of shape `from` into the corner of one of shape `to`.
template <typename T>
void write_corner(const std::vector<T>& source, const Shape& from, std::vector<T>& target, const Shape& to,
                  size_t target_begin) {
  for (size_t i = 0; i < source.size(); ++i) {
    size_t rest = i;
    size_t place = 0;
    size_t stride = 1;
    for (size_t d = from.size(); d-- > 0;) {
      place += rest % static_cast<size_t>(from[d]) * stride;
      rest /= static_cast<size_t>(from[d]);
      stride *= static_cast<size_t>(to[d]);
    }
    target[target_begin + place] = source[i];
  }
}

}  // namespace

ModelGather stacking(std::vector<bool> ragged) {
  return [ragged = std::move(ragged)](const std::vector<ModelElement>& rows, ModelElement& batch) {
    for (size_t c = 0; c < rows[0].values.size(); ++c) {
      ModelValue stacked = rows[0].values[c];
      for (size_t row = 1; row < rows.size(); ++row) {
        if (!ragged[c] && rows[row].values[c].shape != stacked.shape) return batch.fail(ErrorCode::kWrongShape);
        stacked.append(rows[row].values[c]);
      }
      stacked.rows.clear();
      if (ragged[c]) {
        stacked.shape = {kRagged};
        for (const ModelElement& row : rows) stacked.rows.push_back({row.values[c].shape, row.values[c].rows});
      }
      stacked.shape.insert(stacked.shape.begin(), static_cast<int64_t>(rows.size()));
      batch.values.push_back(std::move(stacked));
    }
  };
}

Model model_of_batch(Model input, int64_t size, bool drop_remainder, std::vector<bool> ragged) {
  return model_of_gathering(std::move(input), size, drop_remainder, stacking(std::move(ragged)));
}

Model model_of_unbatch(Model input) {
  return [=](const Iteration& iteration) {
    return [stream = input(iteration), rows = std::deque<ModelElement>()]() mutable -> std::optional<ModelElement> {
      while (rows.empty()) {
        std::optional<ModelElement> element = stream();
        if (!element || element->error) return element;
        const int64_t count = element->values[0].shape[0];
        for (const ModelValue& value : element->values) {
          if (value.shape[0] != count) element->fail(ErrorCode::kWrongShape);
          if (element->error) return element;
        }
        for (int64_t i = 0; i < count; ++i) {
          ModelElement& row = rows.emplace_back();
          row.epoch = element->epoch;
          row.rows = element->rows % count == 0 ? element->rows / count : 1;
        }
        for (const ModelValue& value : element->values) {
          size_t place = 0;
          for (size_t i = 0; i < rows.size(); ++i) {
            const ModelShape shape =
                value.rows.empty() ? ModelShape{{value.shape.begin() + 1, value.shape.end()}, {}} : value.rows[i];
            rows[i].values.push_back(value.part(place, shape.size(), shape));
            place += shape.size();
          }
        }
      }
      ModelElement row = std::move(rows.front());
      rows.pop_front();
      return row;
    };
  };
}

ModelGather padding(const Schema& input, PadLength length, std::optional<int64_t> value,
                    std::optional<int64_t> varying) {
  return [=](const std::vector<ModelElement>& rows, ModelElement& batch) {
    for (size_t c = 0; c < rows[0].values.size(); ++c) {
      Shape target(rows[0].values[c].shape.size(), 0);
      for (const ModelElement& row : rows) {
        for (size_t d = 0; d < target.size(); ++d) target[d] = std::max(target[d], row.values[c].shape[d]);
      }
      // A length is for vectors, and of others for the outermost size that varies.
      const bool asks = length.is_fixed() || length.multiple() > 1;
      size_t of_length = asks ? 0 : target.size();
      while (target.size() > 1 && of_length < target.size() && input[c].shape[of_length] != kVaries) ++of_length;
      if (of_length < target.size() && !varying) {
        int64_t& size = target[of_length];
        if (length.is_fixed() && size > length.fixed_length()) return batch.fail(ErrorCode::kWrongShape);
        size = length.length_for(size);
      }
      for (size_t d = 0; varying && d < target.size(); ++d) {
        if (input[c].shape[d] != kVaries) continue;
        if (target[d] > *varying) return batch.fail(ErrorCode::kWrongShape);
        target[d] = *varying;
      }
      const auto stride = static_cast<size_t>(num_values(target));
      ModelValue padded = rows[0].values[c];
      padded.shape = target;
      padded.shape.insert(padded.shape.begin(), static_cast<int64_t>(rows.size()));
      const size_t total = stride * rows.size();
      padded.integers.assign(is_integer(padded.dtype) ? total : 0, value.value_or(0));
      padded.floats.assign(padded.dtype == DType::kFloat32 ? total : 0, static_cast<float>(value.value_or(0)));
      padded.bytes.assign(padded.dtype == DType::kBytes ? total : 0, "");
      for (size_t row = 0; row < rows.size(); ++row) {
        const ModelValue& from = rows[row].values[c];
        write_corner(from.integers, from.shape, padded.integers, target, row * stride);
        write_corner(from.floats, from.shape, padded.floats, target, row * stride);
        write_corner(from.bytes, from.shape, padded.bytes, target, row * stride);
      }
      batch.values.push_back(std::move(padded));
    }
  };
}

Model model_of_padded_batch(Model input, const Schema& schema, int64_t size, bool drop_remainder, PadLength length,
                            std::optional<int64_t> value) {
  return model_of_gathering(std::move(input), size, drop_remainder, padding(schema, length, value));
}

Model model_of_groups(Model input, std::function<int64_t(const ModelElement&)> key,
                      std::function<int64_t(int64_t)> size, std::function<bool(int64_t)> drops_remainder,
                      std::function<ModelGather(int64_t)> gather) {
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), ended = false,
            groups = std::map<int64_t, std::vector<ModelElement>>()]() mutable -> std::optional<ModelElement> {
      while (!ended) {
        std::optional<ModelElement> element = stream();
        if (!element) {
          ended = true;
          break;
        }
        if (element->error) return element;
        const int64_t of = key(*element);
        groups[of].push_back(std::move(*element));
        if (static_cast<int64_t>(groups[of].size()) < size(of)) continue;
        return batch_of(groups.extract(of).mapped(), gather(of));
      }
      std::erase_if(groups, [&](const auto& group) { return drops_remainder(group.first); });
      if (groups.empty()) return std::nullopt;
      const auto first = groups.extract(groups.begin());
      return batch_of(first.mapped(), gather(first.key()));
    };
  };
}

namespace {

// The errors that go out also where no window takes their element.
bool is_lasting(ErrorCode code) {
  return code != ErrorCode::kUserFunction && code != ErrorCode::kWrongShape && code != ErrorCode::kOutOfRange;
}

}  // namespace

Model model_of_window(Model input, int64_t size, int64_t shift, int64_t stride, bool drop_remainder,
                      ModelGather gather) {
  const int64_t span = (size - 1) * stride + 1;
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), ended = false, to_skip = int64_t{0},
            open = std::deque<ModelElement>()]() mutable -> std::optional<ModelElement> {
      while (!ended && static_cast<int64_t>(open.size()) < span) {
        std::optional<ModelElement> element = stream();
        if (!element) {
          ended = true;
        } else if (element->is_note) {
          element->rows *= size;
          return element;
        } else {
          // Whether no window takes it.
          bool passes = true;
          for (int64_t after = static_cast<int64_t>(open.size()); to_skip == 0 && after >= 0; after -= shift) {
            if (after % stride == 0 && after / stride < size) passes = false;
          }
          if (to_skip > 0) {
            --to_skip;
          } else {
            open.push_back(*element);
          }
          if (passes && element->error && is_lasting(*element->error)) {
            element->rows *= size;
            return element;
          }
        }
      }
      // Of windows that are dropped, what is wrong with the data.
      const bool dropped = drop_remainder && static_cast<int64_t>(open.size()) < span;
      std::vector<ModelElement> taken;
      std::optional<ModelElement> error;
      while (dropped && !open.empty() && !error) {
        for (size_t i = 0; i < open.size(); i += static_cast<size_t>(stride)) {
          if (open[i].error && is_lasting(*open[i].error) && !error) error = open[i];
        }
        for (int64_t i = 0; i < shift && !open.empty(); ++i) open.pop_front();
      }
      if (error) {
        error->rows *= size;
        return error;
      }
      if (open.empty()) return std::nullopt;
      for (size_t i = 0; i < open.size() && i < static_cast<size_t>(span); i += static_cast<size_t>(stride)) {
        if (open[i].error && !error) error = open[i];
        taken.push_back(open[i]);
      }
      for (int64_t i = 0; i < shift; ++i) {
        if (open.empty()) {
          ++to_skip;
        } else {
          open.pop_front();
        }
      }
      if (!error) return batch_of(taken, gather);
      error->rows *= size;
      return error;
    };
  };
}

Model model_of_pack(Model input, int64_t length, size_t look_ahead, bool splits, std::vector<size_t> columns) {
  const auto row_length = static_cast<size_t>(length);
  return [=](const Iteration& iteration) {
    return [=, stream = input(iteration), ended = false, pieces = std::deque<ModelElement>(),
            waiting = std::deque<ModelElement>(), row = std::vector<ModelElement>(),
            used = size_t{0}]() mutable -> std::optional<ModelElement> {
      const auto size = [](const ModelElement& sequence) { return sequence.values[0].size(); };
      while (true) {
        const bool all = ended || waiting.size() >= look_ahead;
        if (row.empty() ? all && !waiting.empty() : used < row_length) {
          auto best = waiting.end();
          for (auto it = waiting.begin(); it != waiting.end(); ++it) {
            if (size(*it) <= row_length - used && (best == waiting.end() || size(*it) > size(*best))) best = it;
            if (row.empty()) {
              best = it;
              break;
            }
          }
          if (best != waiting.end()) {
            used += size(*best);
            row.push_back(std::move(*best));
            waiting.erase(best);
            continue;
          }
        }
        if (!row.empty() && (all || used == row_length)) {
          ModelElement packed;
          packed.epoch = row[0].epoch;
          for (size_t c = 0; c < columns.size(); ++c) {
            ModelValue values = row[0].values[c];
            for (size_t i = 1; i < row.size(); ++i) values.append(row[i].values[c]);
            values.shape = {length};
            if (values.dtype == DType::kFloat32) {
              values.floats.resize(row_length, 0.5F);
            } else {
              values.integers.resize(row_length, 3);
            }
            packed.values.push_back(std::move(values));
          }
          std::vector<int64_t> segments;
          std::vector<int64_t> positions;
          for (size_t i = 0; i < row.size(); ++i) {
            for (size_t p = 0; p < size(row[i]); ++p) {
              segments.push_back(static_cast<int64_t>(i + 1));
              positions.push_back(static_cast<int64_t>(p));
            }
          }
          segments.resize(row_length, 0);
          positions.resize(row_length, 0);
          packed.values.push_back(integers({length}, std::move(segments), DType::kInt32));
          packed.values.push_back(integers({length}, std::move(positions), DType::kInt32));
          row.clear();
          used = 0;
          return packed;
        }
        if (ended) return std::nullopt;
        if (!pieces.empty()) {
          waiting.push_back(std::move(pieces.front()));
          pieces.pop_front();
          continue;
        }
        std::optional<ModelElement> element = stream();
        if (!element) {
          ended = true;
          continue;
        }
        if (element->error) return element;
        const size_t whole = element->values[columns[0]].size();
        for (const size_t c : columns) {
          if (element->values[c].size() != whole) element->fail(ErrorCode::kWrongShape);
          if (element->error) return element;
        }
        if (!splits && whole > row_length) {
          element->fail(ErrorCode::kWrongShape);
          return element;
        }
        for (size_t first = 0; first < whole; first += row_length) {
          const size_t count = std::min(row_length, whole - first);
          ModelElement& piece = pieces.emplace_back();
          piece.epoch = element->epoch;
          for (const size_t c : columns) {
            piece.values.push_back(element->values[c].part(first, count, {{static_cast<int64_t>(count)}, {}}));
          }
        }
      }
    };
  };
}

namespace {

// Whether all of these have an entry for each row of the element.
bool are_batches(const ModelElement& element, const std::vector<size_t>& columns) {
  return std::all_of(columns.begin(), columns.end(),
                     [&](size_t c) { return element.values[c].shape[0] == element.rows; });
}

void mix(ModelValue& value, const std::vector<size_t>& partners, float lambda) {
  const std::vector<float> before = value.floats;
  const size_t length = before.size() / partners.size();
  for (size_t i = 0; i < before.size(); ++i) {
    value.floats[i] = lambda * before[i] + (1 - lambda) * before[partners[i / length] * length + i % length];
  }
}

}  // namespace

Model model_of_mixup(Model input, MixupOptions options, uint64_t occurrence, std::vector<size_t> columns) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    if (!are_batches(element, columns)) return element.fail(ErrorCode::kWrongShape);
    const CounterRng rng(options.seed, operator_id("mixup", occurrence), iteration);
    const MixingDraws draws(rng, static_cast<uint64_t>(ordinal));
    if (!draws.applies(options.probability)) return;
    for (const size_t c : columns) {
      mix(element.values[c], draws.permutation(static_cast<size_t>(element.rows)),
          static_cast<float>(draws.symmetric_beta(options.alpha)));
    }
  });
}

Model model_of_cutmix(Model input, CutmixOptions options, uint64_t occurrence, size_t image,
                      std::vector<size_t> labels) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    if (!are_batches(element, {image}) || !are_batches(element, labels)) return element.fail(ErrorCode::kWrongShape);
    const CounterRng rng(options.seed, operator_id("cutmix", occurrence), iteration);
    const MixingDraws draws(rng, static_cast<uint64_t>(ordinal));
    ModelValue& images = element.values[image];
    if (!draws.applies(options.probability) || images.size() == 0) return;
    const std::vector<size_t> partners = draws.permutation(static_cast<size_t>(element.rows));
    const double side = std::sqrt(1 - draws.symmetric_beta(options.alpha));
    const int64_t height = images.shape[1];
    const int64_t width = images.shape[2];
    const int64_t middle_y = draws.below(static_cast<uint32_t>(height), 0);
    const int64_t middle_x = draws.below(static_cast<uint32_t>(width), 1);
    const auto is_near = [side](int64_t at, int64_t middle, int64_t length) {
      const int64_t half = static_cast<int64_t>(side * static_cast<double>(length)) / 2;
      return middle - half <= at && at < middle + half;
    };
    const ModelValue before = images;
    const int64_t row_length = static_cast<int64_t>(images.size()) / element.rows;
    const int64_t pixel_length = row_length / (height * width);
    int64_t pasted = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(images.size()); ++i) {
      const int64_t pixel = i % row_length / pixel_length;
      if (!is_near(pixel / width, middle_y, height) || !is_near(pixel % width, middle_x, width)) continue;
      if (i < row_length && i % pixel_length == 0) ++pasted;
      const size_t other = partners[static_cast<size_t>(i / row_length)] * static_cast<size_t>(row_length) +
                           static_cast<size_t>(i % row_length);
      if (!before.integers.empty()) images.integers[static_cast<size_t>(i)] = before.integers[other];
      if (!before.floats.empty()) images.floats[static_cast<size_t>(i)] = before.floats[other];
    }
    const float lambda = 1 - static_cast<float>(pasted) / static_cast<float>(height * width);
    for (const size_t c : labels) mix(element.values[c], partners, lambda);
  });
}

namespace {

// The numbers of the pixels of a square image, in the places to which they come.
std::vector<int64_t> moved_pixels(int64_t side, const AugmentImagesOptions& options, const CounterRng::Words& words) {
  std::vector<int64_t> pixels;
  for (int64_t i = 0; i < side * side; ++i) pixels.push_back(i);
  const auto move = [&](auto from) {
    std::vector<int64_t> moved;
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) moved.push_back(pixels[static_cast<size_t>(from(y, x))]);
    }
    pixels = std::move(moved);
  };
  for (uint32_t turn = 0; options.rotate && turn < words[0] >> 30; ++turn) {
    move([side](int64_t y, int64_t x) { return x * side + side - 1 - y; });
  }
  if (options.flip_left_right && words[1] >= uint32_t{1} << 31) {
    move([side](int64_t y, int64_t x) { return y * side + side - 1 - x; });
  }
  if (options.flip_up_down && (words[1] & uint32_t{1} << 30) != 0) {
    move([side](int64_t y, int64_t x) { return (side - 1 - y) * side + x; });
  }
  return pixels;
}

// A pixel of red, green and blue with its hue turned and its saturation multiplied (of the hexagon of HSV), in floats
// as `augment` below: the last bits are part of the stream.
void change_colour(float* rgb, float turns, float factor) {
  const float value = std::max({rgb[0], rgb[1], rgb[2]});
  const float chroma = value - std::min({rgb[0], rgb[1], rgb[2]});
  if (chroma == 0) return;
  // The strongest channel's corner of the hexagon, red at 0, green at 2 and blue at 4, and how far the hue is from it.
  const auto strongest = static_cast<size_t>(std::max_element(rgb, rgb + 3) - rgb);
  const float off = (rgb[(strongest + 1) % 3] - rgb[(strongest + 2) % 3]) / chroma;
  const float hue = static_cast<float>(2 * strongest) + off + 6 * turns;
  const float changed = value > 0 ? std::min(chroma * factor, value) : chroma * factor;
  for (size_t c = 0; c < 3; ++c) {
    const float apart = std::fmod(std::abs(hue - static_cast<float>(2 * c)), 6.0F);
    rgb[c] = value - changed * std::clamp(std::min(apart, 6 - apart) - 1, 0.0F, 1.0F);
  }
}

// One image, whose values begin at `first`; `words` of the row's first two draws.
template <typename T>
void augment(std::vector<T>& values, bool whole, size_t first, size_t side, size_t channels,
             const AugmentImagesOptions& options, const std::array<CounterRng::Words, 2>& words) {
  std::vector<float> image;
  for (const int64_t pixel : moved_pixels(static_cast<int64_t>(side), options, words[0])) {
    for (size_t c = 0; c < channels; ++c) {
      image.push_back(static_cast<float>(values[first + static_cast<size_t>(pixel) * channels + c]));
    }
  }
  const std::pair<double, double> as_it_is{1, 1};
  const bool contrast = options.contrast != as_it_is;
  const bool colours = options.saturation != as_it_is || options.hue != 0;
  const auto both_sides = [](double most, uint32_t word) {
    return static_cast<float>(most * (word / 2147483648.0 - 1));
  };
  const auto between = [](const std::pair<double, double>& range, uint32_t word) {
    return static_cast<float>(range.first + (range.second - range.first) * (word / 4294967296.0));
  };
  const float added = both_sides(options.brightness, words[0][2]) * (whole ? 255 : 1);
  const float factor = between(options.contrast, words[0][3]);
  for (size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (size_t i = c; i < image.size(); i += channels) sum += static_cast<double>(image[i]);
    const float mean = static_cast<float>(sum / static_cast<double>(side * side)) + added;
    for (size_t i = c; i < image.size(); i += channels) {
      image[i] += added;
      if (contrast) image[i] = (image[i] - mean) * factor + mean;
    }
  }
  for (size_t i = 0; colours && i < image.size(); i += channels) {
    change_colour(&image[i], both_sides(options.hue, words[1][1]), between(options.saturation, words[1][0]));
  }
  for (size_t i = 0; i < image.size(); ++i) {
    float value = image[i];
    if (whole) value = std::round(std::clamp(value, 0.0F, 255.0F));
    if (!whole && options.clip && (options.brightness != 0 || contrast || colours)) {
      value = std::clamp(value, static_cast<float>(options.clip->first), static_cast<float>(options.clip->second));
    }
    values[first + i] = static_cast<T>(value);
  }
}

}  // namespace

Model model_of_augment_images(Model input, AugmentImagesOptions options, uint64_t occurrence,
                              std::vector<size_t> columns) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    const CounterRng rng(options.seed, operator_id("augment_images", occurrence), iteration);
    const bool in_batches = element.values[columns[0]].shape.size() == 4;
    const int64_t rows = in_batches ? element.values[columns[0]].shape[0] : 1;
    if (rows != element.rows) return element.fail(ErrorCode::kWrongShape);
    for (int64_t row = 0; row < rows; ++row) {
      const auto number = static_cast<uint64_t>(ordinal + row);
      const std::array<CounterRng::Words, 2> words{rng.words(number), rng.words(number, 1)};
      for (const size_t c : columns) {
        ModelValue& images = element.values[c];
        const auto channels = static_cast<size_t>(images.shape.back());
        const auto side = static_cast<size_t>(images.shape[images.shape.size() - 2]);
        const size_t first = static_cast<size_t>(row) * images.size() / static_cast<size_t>(rows);
        if (images.dtype == DType::kFloat32) {
          augment(images.floats, /*whole=*/false, first, side, channels, options, words);
        } else {
          augment(images.integers, /*whole=*/true, first, side, channels, options, words);
        }
      }
    }
  });
}

namespace {

// Which positions of a row are masked, and by which word the fate of each is decided: a position, or the first of its
// span.
using ModelMask = std::map<size_t, size_t>;

// Lengths of spans, as long as they hold fewer than `share` units, and the places before which they stand.
std::vector<std::pair<size_t, size_t>> drawn_spans(const MaskSpans& spans, size_t share, size_t num_units,
                                                   const CounterRng& rng, uint64_t row, uint32_t cut_one) {
  std::vector<size_t> lengths;
  double all = 0;
  for (int64_t i = 0; i < spans.max_length; ++i) all += spans.stop * std::pow(1 - spans.stop, i);
  size_t sum = 0;
  while (sum < share) {
    const size_t i = lengths.size();
    const uint64_t word = rng.words(row, (uint64_t{3} << 32) + i / 4)[i % 4];
    size_t length = 1;
    for (double up_to = spans.stop; static_cast<int64_t>(length) < spans.max_length && word >= chance(up_to / all);) {
      up_to += spans.stop * std::pow(1 - spans.stop, length++);
    }
    lengths.push_back(std::min(length, share - sum));
    sum += lengths.back();
  }
  if (lengths.empty()) return {};
  std::swap(lengths.back(), lengths[uniform_below(cut_one, static_cast<uint32_t>(lengths.size()))]);
  std::vector<std::pair<size_t, size_t>> placed;
  size_t unit = 0;
  const size_t places = num_units - share + 1;
  for (size_t place = 0; place < places; ++place, ++unit) {
    const uint32_t word = rng.words(row, place / 4)[place % 4];
    const size_t left = lengths.size() - placed.size();
    if (uniform_below(word, static_cast<uint32_t>(places - place)) >= left) continue;
    placed.emplace_back(unit, lengths[placed.size()]);
    unit += placed.back().second;
  }
  return placed;
}

// Of words and spans: `may` says which positions of the row may be chosen, `starts` where words start.
ModelMask chosen_of(const MaskTokensOptions& options, const std::vector<bool>& may, const std::vector<bool>& starts,
                    const CounterRng& rng, uint64_t row) {
  std::vector<std::vector<size_t>> units;
  for (size_t p = 0; p < may.size(); ++p) {
    if (!may[p]) continue;
    if (p == 0 || !may[p - 1] || starts[p]) units.emplace_back();
    units.back().push_back(p);
  }
  ModelMask chosen;
  if (!options.spans) {
    for (size_t u = 0; u < units.size(); ++u) {
      if (rng.words(row, u / 4)[u % 4] >= chance(options.probability)) continue;
      for (const size_t p : units[u]) chosen[p] = p;
    }
    return chosen;
  }
  const CounterRng::Words rounding = rng.words(row, uint64_t{4} << 32);
  const auto share = static_cast<size_t>((chance(options.probability) * units.size() + rounding[0]) >> 32);
  for (const auto& [first, count] : drawn_spans(*options.spans, share, units.size(), rng, row, rounding[1])) {
    for (size_t u = first; u < first + count; ++u) {
      for (const size_t p : units[u]) chosen[p] = units[first][0];
    }
  }
  return chosen;
}

}  // namespace

Model model_of_mask_tokens(Model input, MaskTokensOptions options, uint64_t occurrence, int ids_column,
                           int attention_column, int starts_column) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    ModelValue& ids = element.values[static_cast<size_t>(ids_column)];
    ModelValue labels = ids;
    const auto value_or_null = [&](int column) {
      return column < 0 ? nullptr : &element.values[static_cast<size_t>(column)];
    };
    const ModelValue* attention = value_or_null(attention_column);
    const ModelValue* starts = value_or_null(starts_column);
    for (const ModelValue* other : {attention, starts}) {
      if (other != nullptr && other->integers.size() != ids.integers.size()) {
        return element.fail(ErrorCode::kWrongShape);
      }
    }
    const CounterRng rng(options.seed, operator_id("mask_tokens", occurrence), iteration);
    const auto length = static_cast<size_t>(ids.shape.back());
    const bool one_by_one = starts == nullptr && options.starts_word.empty() && !options.spans;
    for (size_t begin = 0; begin < ids.integers.size(); begin += length) {
      const uint64_t row = number_of_row(element, ordinal, begin / length);
      std::vector<bool> may(length);
      std::vector<bool> starts_word(length, true);
      for (size_t p = 0; p < length; ++p) {
        const int64_t id = ids.integers[begin + p];
        may[p] = (attention == nullptr || attention->integers[begin + p] != 0) &&
                 std::count(options.special_tokens.begin(), options.special_tokens.end(), id) == 0;
        if (starts != nullptr) starts_word[p] = starts->integers[begin + p] != 0;
        if (!options.starts_word.empty()) {
          const auto known = static_cast<int64_t>(options.starts_word.size());
          starts_word[p] = id < 0 || id >= known || options.starts_word[static_cast<size_t>(id)];
        }
      }
      const ModelMask chosen = one_by_one ? ModelMask() : chosen_of(options, may, starts_word, rng, row);
      for (size_t p = 0; p < length; ++p) {
        int64_t& id = ids.integers[begin + p];
        int64_t& label = labels.integers[begin + p];
        label = -100;
        double among = 1;  // what the chances of the fates are parts of
        uint64_t word = 0;
        if (one_by_one) {
          word = rng.words(row, p / 4)[p % 4];
          among = options.probability;
          if (!may[p] || word >= chance(among)) continue;
        } else {
          const auto fate_of = chosen.find(p);
          if (fate_of == chosen.end()) continue;
          word = rng.words(row, (uint64_t{2} << 32) + fate_of->second / 4)[fate_of->second % 4];
        }
        label = id;
        if (word < chance(among * options.mask_share)) {
          id = options.mask_token;
        } else if (word < chance(among * (options.mask_share + options.random_share))) {
          id = uniform_below(rng.words(row, (uint64_t{1} << 32) + p)[0], static_cast<uint32_t>(options.vocab_size));
        }
      }
    }
    element.values.push_back(std::move(labels));
  });
}

Model model_of_one_hot(Model input, size_t column, int64_t depth, OneHotOptions options) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    const ModelValue indices = std::move(element.values[column]);
    ModelValue& value = element.values[column] = ModelValue();
    value.dtype = options.dtype;
    value.shape = indices.shape;
    value.shape.push_back(depth);
    for (const int64_t index : indices.integers) {
      for (int64_t place = 0; place < depth; ++place) {
        std::visit(
            [&](auto number) {
              if (options.dtype == DType::kFloat32) {
                value.floats.push_back(static_cast<float>(number));
              } else {
                value.integers.push_back(static_cast<int64_t>(number));
              }
            },
            place == index ? options.on_value : options.off_value);
      }
    }
  });
}

namespace {

// Cuts `count` tokens at `spans` - 1 places between them, by the words from `first` on.
std::vector<int64_t> cut_at_random(int64_t count, int64_t spans, const CounterRng& rng, uint64_t row, uint64_t first) {
  std::vector<int64_t> lengths{1};
  int64_t left = spans - 1;
  for (int64_t place = 0; place < count - 1; ++place) {
    const uint64_t word = first + static_cast<uint64_t>(place);
    const auto places_left = static_cast<uint32_t>(count - 1 - place);
    if (uniform_below(rng.words(row, word / 4)[word % 4], places_left) < left) {
      lengths.push_back(0);
      --left;
    }
    ++lengths.back();
  }
  return lengths;
}

// Which tokens of a row are left out.
std::vector<bool> noise_mask(const CorruptSpansOptions& options, int64_t length, const CounterRng& rng, uint64_t row) {
  std::vector<bool> noise;
  if (length < 2) {
    noise.resize(static_cast<size_t>(length));
    return noise;
  }
  const auto rounded = [](float value) {
    const auto below = static_cast<int64_t>(std::floor(value));
    const float rest = value - std::floor(value);
    return rest > 0.5F || (rest == 0.5F && below % 2 == 1) ? below + 1 : below;
  };
  int64_t tokens = rounded(static_cast<float>(length) * static_cast<float>(options.noise_density));
  tokens = std::min(std::max<int64_t>(tokens, 1), length - 1);
  int64_t spans = rounded(static_cast<float>(tokens) / static_cast<float>(options.mean_span_length));
  spans = std::max<int64_t>(1, std::min({spans, tokens, length - tokens}));
  const std::vector<int64_t> left_out = cut_at_random(tokens, spans, rng, row, 0);
  const std::vector<int64_t> stays = cut_at_random(length - tokens, spans, rng, row, static_cast<uint64_t>(tokens - 1));
  for (size_t span = 0; span < left_out.size(); ++span) {
    noise.insert(noise.end(), static_cast<size_t>(stays[span]), false);
    noise.insert(noise.end(), static_cast<size_t>(left_out[span]), true);
  }
  return noise;
}

}  // namespace

Model model_of_corrupt_spans(Model input, CorruptSpansOptions options, uint64_t occurrence, int ids) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    const ModelValue rows = std::move(element.values[static_cast<size_t>(ids)]);
    const int64_t length = rows.shape.back();
    const int64_t num_rows = rows.shape.size() == 2 ? rows.shape[0] : 1;
    const int64_t first = options.first_sentinel.value_or(options.vocab_size - 1);
    const CounterRng rng(options.seed, operator_id("corrupt_spans", occurrence), iteration);
    for (const int64_t id : rows.integers) {
      if (id <= first && id > first - options.num_sentinels) return element.fail(ErrorCode::kOutOfRange);
    }
    std::vector<int64_t> kept;
    std::vector<int64_t> targets;
    const int64_t drawn = std::max<int64_t>(num_rows, 1);  // of no rows one that is not there, for the lengths
    for (int64_t row = 0; row < drawn; ++row) {
      const std::vector<bool> noise =
          noise_mask(options, length, rng, number_of_row(element, ordinal, static_cast<size_t>(row)));
      int64_t num_spans = 0;   // that are left out
      int64_t num_others = 0;  // that stay
      for (size_t p = 0; p < noise.size(); ++p) {
        const int64_t id = num_rows == 0 ? 0 : rows.integers[static_cast<size_t>(row * length) + p];
        const bool begins = p == 0 || noise[p] != noise[p - 1];
        if (begins) (noise[p] ? kept : targets).push_back(first - (noise[p] ? num_spans++ : num_others++));
        (noise[p] ? targets : kept).push_back(id);
      }
      if (num_spans > options.num_sentinels) return element.fail(ErrorCode::kOutOfRange);
      if (options.end_token) {
        kept.push_back(*options.end_token);
        targets.push_back(*options.end_token);
      }
    }
    const auto shaped = [&](std::vector<int64_t> values) {
      Shape shape = rows.shape;
      shape.back() = static_cast<int64_t>(values.size()) / drawn;
      if (num_rows == 0) values.clear();
      return integers(shape, std::move(values), rows.dtype);
    };
    element.values[static_cast<size_t>(ids)] = shaped(std::move(kept));
    element.values.push_back(shaped(std::move(targets)));
  });
}

}  // namespace millrace::test
