#include "millrace/ops/batch/group_by_window.h"

#include <fmt/format.h>

#include "millrace/ops/batch/group_stage.h"
#include "millrace/ops/element_progress.h"
#include "millrace/ops/features/map.h"

namespace millrace {
namespace {

constexpr std::string_view kName = "group_by_window";

[[noreturn]] void refuse(const std::string& message) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", kName, message));
}

}  // namespace

WindowSize WindowSize::by_key(std::string name, std::function<int64_t(int64_t)> function) {
  WindowSize size(0);
  size.name = std::move(name);
  size.function = std::move(function);
  if (!size.function) refuse("no function for the window size given");
  return size;
}

WrittenWindowSize WrittenAs<WindowSize>::to(const WindowSize& size) {
  return size.function ? WrittenWindowSize{.window_size_function = size} : WrittenWindowSize{.window_size = size.size};
}

WindowSize WrittenAs<WindowSize>::from(const WrittenWindowSize& size) {
  if (size.window_size.has_value() == size.window_size_function.has_value()) {
    refuse_argument("it takes either 'window_size' or 'window_size_function'");
  }
  return size.window_size ? WindowSize(*size.window_size) : *size.window_size_function;
}

GroupByWindowOperator::GroupByWindowOperator(const SchemaPtr& input, RowKey key, WindowSize window_size,
                                             const BatchingOptions& options)
    : GroupByWindowOperator(input, std::move(key), std::move(window_size), Batching(kName, input, options)) {}

GroupByWindowOperator::GroupByWindowOperator(SchemaPtr input, RowKey key, WindowSize window_size, Batching batching)
    : StageOperator(batching.schema(kVaries)),
      input_schema_(std::move(input)),
      key_(std::move(key)),
      window_size_(std::move(window_size)),
      batching_(std::move(batching)) {
  if (!key_.key) refuse("no key function given");
  if (!window_size_.function && window_size_.size < 1) {
    refuse(fmt::format("window_size must be at least 1, not {}", window_size_.size));
  }
}

Cardinality GroupByWindowOperator::cardinality(std::span<const Cardinality> inputs) const {
  return inputs[0].is_infinite() ? inputs[0] : Cardinality::unknown();
}

std::unique_ptr<Stage> GroupByWindowOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  GroupStage::Rules rules{.operator_name = kName};
  rules.keys = [this](Block& block, std::span<int64_t> keys) {
    ElementProgress progress;
    for (size_t i = 0; i < keys.size(); ++i, progress.step()) {
      if (!block.errors().empty() && block.error_at(i) != nullptr) continue;
      try {
        keys[i] = key_.key(RowView(block, i));
      } catch (...) {
        block.add_error(i, user_function_error(kName, key_.name, block, i));
      }
    }
  };
  rules.size = [this](int64_t key) {
    if (!window_size_.function) return window_size_.size;
    int64_t size = 0;
    try {
      size = window_size_.function(key);
    } catch (...) {
      throw ErrorException(user_function_error(kName, window_size_.name));
    }
    if (size < 1) {
      throw ErrorException(ErrorCode::kUserFunction,
                           fmt::format("{} '{}': gave {} for key {}; a window has at least one "
                                       "element",
                                       kName, window_size_.name, size, key));
    }
    return size;
  };
  rules.drops_remainder = [drop = batching_.drop_remainder()](int64_t) { return drop; };
  rules.assemble = [assemble = batching_.assemble(schema(), context)](const Block& elements, size_t rows, int64_t) {
    return assemble(elements, rows);
  };
  return std::make_unique<GroupStage>(input_schema_, schema(), open_input(inputs[0], context), std::move(rules),
                                      context);
}

}  // namespace millrace
