# gx_kernel_blobs(NAME): every graphex/kernels/**/*.cc compiled to LLVM bitcode once per ISA level and embedded as bytes.
# Bitcode is emitted before optimisation (-O3 so that loops aren't stamped "unroll disable", passes off): codegen/ sets the
# knobs and optimises at run time. graphex/kernels/blobs.h declares the table; a blob's name is its file's stem.
include_guard(GLOBAL)

set(GX_KERNEL_LEVELS generic avx2 avx512 avx512bf16)
set(GX_KERNEL_FLAGS_generic -march=x86-64-v2)
set(GX_KERNEL_FLAGS_avx2 -march=x86-64-v3)
set(GX_KERNEL_FLAGS_avx512 -march=x86-64-v4 -mavx512vnni -mprefer-vector-width=512)
set(GX_KERNEL_FLAGS_avx512bf16 ${GX_KERNEL_FLAGS_avx512} -mavx512bf16)
set(GX_KERNEL_FLAGS -std=c++20 -O3 -Xclang -disable-llvm-passes -emit-llvm -fPIC
  -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-stack-protector -fno-asynchronous-unwind-tables
  -ffp-contract=off -fno-math-errno -Wall -Wextra -Wno-psabi $<$<BOOL:${GX_WERROR}>:-Werror>)

function(_gx_kernel_bitcode source level output)
  string(TOUPPER ${level} upper)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} "${CMAKE_CXX_COMPILER}" ${GX_KERNEL_FLAGS} ${GX_KERNEL_FLAGS_${level}}
      -DGX_LEVEL=${level} -DGX_LEVEL_${upper}=1 -I "${PROJECT_SOURCE_DIR}"
      -MD -MF "${output}.d" -MT "${output}" -c "${source}" -o "${output}"
    DEPENDS "${source}" DEPFILE "${output}.d" COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Kernel bitcode ${level}/${source}")
endfunction()

function(gx_kernel_blobs name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/graphex/kernels/*.cc")
  set(folder "${CMAKE_BINARY_DIR}/kernels")
  set(assembly "")
  set(externs "")
  set(rows "")
  set(outputs "")
  set(stems "")
  foreach(source IN LISTS sources)
    get_filename_component(stem "${source}" NAME_WE)
    if(stem IN_LIST stems)
      message(FATAL_ERROR "two kernel files are named ${stem}.cc; a blob is found by its stem, rename one")
    endif()
    list(APPEND stems ${stem})
    foreach(level IN LISTS GX_KERNEL_LEVELS)
      set(output "${folder}/${level}/${stem}.bc")
      file(MAKE_DIRECTORY "${folder}/${level}")
      _gx_kernel_bitcode("${source}" ${level} "${output}")
      list(APPEND outputs "${output}")
      set(symbol "gx_blob_${level}_${stem}")
      string(APPEND assembly ".balign 16\n.globl ${symbol}\n.hidden ${symbol}\n${symbol}:\n.incbin \"${output}\"\n"
        ".globl ${symbol}_end\n.hidden ${symbol}_end\n${symbol}_end:\n.byte 0\n")
      string(APPEND externs "extern const char ${symbol}[], ${symbol}_end[];\n")
      string(APPEND rows "    {\"${stem}\", \"${level}\", ${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})},\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT "${folder}/blobs.S" CONTENT
    ".section .rodata.gx_blobs,\"a\",@progbits\n${assembly}.section .note.GNU-stack,\"\",@progbits\n" @ONLY)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/blobs.cc.in" "${folder}/blobs.cc" @ONLY)
  set_source_files_properties("${folder}/blobs.S" PROPERTIES OBJECT_DEPENDS "${outputs}")

  add_library(gx_${name} STATIC "${folder}/blobs.cc" "${folder}/blobs.S")
  add_library(graphex::${name} ALIAS gx_${name})
  set_target_properties(gx_${name} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME graphex_${name})
  target_include_directories(gx_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  set(GX_ROOMS ${GX_ROOMS} gx_${name} CACHE INTERNAL "")
endfunction()
