# The headers that users include, by what they are for; the reference (`reference`, docs) is of these. Installed are they
# and what they include themselves, each of which compiles alone (tests/install/run.sh).

# Datasets and pipelines.
set(MILLRACE_PUBLIC_HEADERS
    pipeline/dataset.h pipeline/pipeline.h pipeline/pipeline_state.h pipeline/statistics.h pipeline/stall.h
    pipeline/trace.h pipeline/worker_limit.h pipeline/stream_hash.h pipeline/state_writer.h
    pipeline/definition/pipeline_def.h pipeline/definition/function_registry.h)
# Operators of one's own, and what they are made of.
list(APPEND MILLRACE_PUBLIC_HEADERS
    ops/operator.h ops/operator_traits.h ops/stage.h ops/arguments.h ops/description.h ops/block_reader.h
    ops/element_progress.h ops/joined_schema.h ops/row_number.h ops/row_view.h formats/columnar/block.h formats/columnar/block_builder.h
    formats/columnar/column.h formats/columnar/schema.h formats/columnar/buffer.h formats/random/counter_rng.h)
# Files: shards, their indexes, messages, storages of one's own.
list(APPEND MILLRACE_PUBLIC_HEADERS
    formats/error.h formats/records/shards.h formats/records/damage_policy.h formats/tfrecord/reader.h
    formats/tfrecord/writer.h formats/tfrecord/index/index.h formats/tfrecord/index/index_builder.h
    formats/example/parser.h formats/example/writer.h formats/example/tensor_writer.h formats/image/decoder.h formats/image/png_writer.h formats/safetensors/reader.h formats/safetensors/writer.h
    formats/storage/storage.h formats/storage/local.h formats/storage/atomic_file.h
    formats/storage/remote/remote_storage.h formats/storage/remote/routed_storage.h
    formats/storage/remote/disk_cache.h formats/storage/remote/disk_cache_options.h
    formats/storage/remote/folder_upload.h formats/storage/remote/folder_download.h
    formats/storage/remote/folder_leftovers.h formats/storage/remote/object_lock.h)
# Command lines of programs.
list(APPEND MILLRACE_PUBLIC_HEADERS
    command_line/command_line.h command_line/number_options.h command_line/given_options.h
    command_line/damage_options.h command_line/listed_shards.h command_line/text_files.h)
if(MILLRACE_BUILD_TRAINER)
  # Tokenizers, and trainings: models, what updates them, what is reported; the operations of a model of one's own.
  list(APPEND MILLRACE_PUBLIC_HEADERS
      tokenizer/tokenizer.h tokenizer/training/unigram_trainer.h trainer/trainer.h
      trainer/trainer_options.h trainer/predictor.h trainer/model.h
      trainer/callback.h trainer/pipeline_source.h trainer/stop_signals.h trainer/step/device_worker.h
      trainer/tape_model.h trainer/gradient_check.h trainer/checkpoint/parameter_file.h
      trainer/models/normal_weights.h trainer/models/question_answer_roberta.h trainer/models/roberta.h
      trainer/models/roberta_pretrained.h
      trainer/models/t5.h trainer/models/t5_pretrained.h trainer/models/vgg.h
      trainer/step/distributor.h trainer/step/step_graph.h)
  # Training programs (docs/training_programs.md).
  list(APPEND MILLRACE_PUBLIC_HEADERS
      trainer/run/training_run.h trainer/run/run_options.h trainer/run/phase_options.h trainer/run/run_phases.h
      trainer/run/run_summary.h trainer/run/output_folder.h trainer/run/run_spec.h trainer/run/missing_data.h trainer/run/roberta_options.h
      trainer/run/t5_options.h trainer/run/tokenizer_files.h trainer/run/split.h trainer/run/similar_lengths.h
      trainer/run/cross_validation.h trainer/run/predicted_rows.h)
  foreach(folder optimizers schedules callbacks metrics tensor)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/trainer/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "/(gemm_.*|convolution.*|onednn_call|kernels|shape_check|scored_rows|ranks)\\.h$|-inl\\.h$")
    list(APPEND MILLRACE_PUBLIC_HEADERS ${headers})
  endforeach()
endif()

# millrace_with_included(RESULT headers...): these, and the headers of Millrace that they include, and so on.
function(millrace_with_included result)
  set(found)
  set(todo ${ARGN})
  while(todo)
    list(POP_FRONT todo header)
    if(header IN_LIST found)
      continue()
    endif()
    list(APPEND found ${header})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"millrace/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"millrace/([^\"]+)\".*" "\\1" included "${line}")
      list(APPEND todo ${included})
    endforeach()
  endwhile()
  list(SORT found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()
