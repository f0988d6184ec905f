#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/row_view.h"
#include "millrace/ops/written_features.h"

namespace millrace {

/// A user's function that is called for each element. It must be thread safe, and should be a pure function of the
/// element: then the stream is the same for any number of threads.
struct RowFunction {
  static constexpr std::string_view kKind = "row function";
  std::string name = {};  ///< appears in errors and in `explain()`
  /// The features that it sets in each element, new ones or others' replacements
  std::vector<FeatureSpec> writes = {};
  std::function<void(const RowView&, RowWriter&)> function = {};
  bool keep_others = true;  ///< the features that it does not write pass, without a copy. Default: true
};

/// Applies a function to each element. What it throws becomes the error of that element; others are not touched.
///
///     MapRowsOperator map(schema, {.name = "length",
///                                  .writes = {{.name = "length", .dtype = DType::kInt64, .shape = {}}},
///                                  .function = [](const RowView& row, RowWriter& out) {
///                                    out.set("length", row.shape("tokens")[0]);
///                                  }});
class MapRowsOperator final : public MapOperator {
 public:
  MapRowsOperator(const SchemaPtr& input, RowFunction function);
  std::string_view name() const override { return "map"; }
  Block apply(Block block, BufferPool& pool) const override;
  /// Nothing: what a user's function makes is never refused.
  int64_t memory_needed(std::span<const Cardinality> /*inputs*/) const override { return 0; }

 private:
  // A reference: the features are made of the function before it is moved.
  MapRowsOperator(WrittenFeatures features, RowFunction&& function);

  WrittenFeatures features_;
  RowFunction function_;
};

/// A user's function that is called for each block: k elements in columns. It must be thread safe.
struct BlockFunction {
  static constexpr std::string_view kKind = "block function";
  std::string name = {};  ///< appears in errors and in `explain()`
  SchemaPtr schema = {};  ///< of the blocks that it returns
  /// Returns as many elements as it was given, in order; `Block::with_columns` helps. Error elements come too, with
  /// columns that hold nothing of meaning in their place, and stay errors whatever it does. Every column must have that
  /// many elements of its feature's type and rank, or all are the error `user_function`; an element of other sizes than
  /// the feature fixes is the error `wrong_shape`.
  std::function<Block(Block, BufferPool&)> function = {};
};

/// Applies a function to blocks. What it throws becomes the error of every element of the block, and how elements are
/// cut into blocks is not part of the stream: a function that fails on single elements should mark these
/// (`Block::add_error`).
class MapBlocksOperator final : public MapOperator {
 public:
  explicit MapBlocksOperator(BlockFunction function);
  std::string_view name() const override { return "map"; }
  Block apply(Block block, BufferPool& pool) const override;
  /// Nothing: what a user's function makes is never refused.
  int64_t memory_needed(std::span<const Cardinality> /*inputs*/) const override { return 0; }

 private:
  BlockFunction function_;
};

/// The error of an element of `block` for which a user's function threw the current exception: it names the function,
/// and the record that the element comes from. Throws a `std::bad_alloc` on: memory that ends is no fault of the
/// function.
std::shared_ptr<const Error> user_function_error(std::string_view operator_name, std::string_view function_name,
                                                 const Block& block, size_t element);
/// The same where the function was called for many elements at once, or for none.
Error user_function_error(std::string_view operator_name, std::string_view function_name);

/// What `Dataset::map` is called with.
struct MapArguments {
  RowFunction function = {};

  static constexpr auto fields() { return describe<MapArguments>("map", field::required<&MapArguments::function>); }
};

/// What `Dataset::map` is called with.
struct MapBlocksArguments {
  BlockFunction function = {};

  static constexpr auto fields() {
    using A = MapBlocksArguments;
    return describe<A>("map_blocks", field::required<&A::function>);
  }
};

}  // namespace millrace
