#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "millrace/pipeline/dataset.h"

namespace millrace::def {
class PipelineDef;
}  // namespace millrace::def

namespace millrace {

/// A dataset as data: the methods of Dataset that made it, with their arguments, as pipeline_def.proto has them. It can
/// be saved, read back, edited, compared and run (`dataset_bench --pipeline FILE`). A dataset read back has the same
/// stream and takes the same states. An immutable value; any thread.
///
/// Functions of yours stand in it by the names with which they were registered (`register_function`) in the program
/// that writes it and in the one that reads it. Files of shards stand in it by their paths, as they were given.
///
///     PipelineDef::of(train).save("train.txtpb");
///     Dataset same = PipelineDef::load("train.txtpb").dataset();
class PipelineDef {
 public:
  /// Throws `kInvalidArgument` that names a function that is not registered, or an operator that no method of Dataset
  /// made (`from_operator`).
  [[nodiscard]] static PipelineDef of(const Dataset& dataset);
  /// Protobuf's text form. Throws `kInvalidArgument` with line and column, or the field of a text that is no UTF-8.
  /// `name` stands before them.
  [[nodiscard]] static PipelineDef from_text(std::string_view text, std::string_view name = "pipeline");
  /// Protobuf's JSON form. Throws `kInvalidArgument`.
  [[nodiscard]] static PipelineDef from_json(std::string_view json, std::string_view name = "pipeline");
  /// A file: JSON where its name ends in `.json`, else text. Throws `kIo` too.
  [[nodiscard]] static PipelineDef load(const std::string& path);

  [[nodiscard]] std::string to_text() const;
  /// Throws `kInvalidArgument` naming the field for a negative zero, which protobuf's JSON does not keep.
  [[nodiscard]] std::string to_json() const;
  /// Replaces the file at once or not at all; the form as of `load`. Throws `kIo`, and what `to_json` does.
  void save(const std::string& path) const;

  /// Builds the dataset. Throws `kInvalidArgument` that names the step, `kIo` when a pattern of files cannot be looked
  /// up.
  [[nodiscard]] Dataset dataset() const;

  /// What `other` has otherwise, one line for each change: `modified: steps[2].batch.size: 64 -> 128`. Empty: nothing.
  [[nodiscard]] std::string difference(const PipelineDef& other) const;

 private:
  explicit PipelineDef(std::shared_ptr<const def::PipelineDef> message) : message_(std::move(message)) {}

  std::shared_ptr<const def::PipelineDef> message_;
};

}  // namespace millrace
