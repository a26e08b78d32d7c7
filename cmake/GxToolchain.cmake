# What graphex is built with, and an error that says what to install where a piece isn't there. Included before project():
# clang 19 unless CMAKE_CXX_COMPILER names another. CC and CXX aren't read: pip sets them to what built Python.
include_guard(GLOBAL)

function(gx_missing what)
  message(FATAL_ERROR "graphex is built with clang 19, lld 19, LLVM 19, the archives of zlib and zstd, and Python's headers; ${what} is missing.\n"
    "On Debian or Ubuntu, as root: apt-get install clang-19 lld-19 llvm-19-dev zlib1g-dev libzstd-dev python3-dev\n"
    "In a clone, ./dev setup does it. A wheel needs none of this to run.")
endfunction()

macro(_gx_default_compiler language program)
  if(NOT CMAKE_${language}_COMPILER)
    find_program(GX_FOUND_${language} ${program})
    if(NOT GX_FOUND_${language})
      gx_missing(${program})
    endif()
    set(CMAKE_${language}_COMPILER "${GX_FOUND_${language}}" CACHE FILEPATH "Compiler of ${language}")
  endif()
endmacro()

_gx_default_compiler(C clang-19)
_gx_default_compiler(CXX clang++-19)
_gx_default_compiler(ASM clang-19)

macro(_gx_archive target file variable)
  find_library(${variable} ${file})
  if(NOT ${variable})
    gx_missing(${file})
  endif()
  add_library(${target} STATIC IMPORTED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${${variable}}")
endmacro()

# gx_find_llvm(): LLVM and what it stands on, all as archives: whatever links it runs where none of them is installed.
# The targets have the names that LLVM's archives link, and come before LLVM's own search would fill them with shared libraries.
macro(gx_find_llvm)
  _gx_archive(ZLIB::ZLIB libz.a GX_ZLIB_ARCHIVE)
  _gx_archive(zstd::libzstd_shared libzstd.a GX_ZSTD_ARCHIVE)
  find_package(LLVM 19.1 QUIET CONFIG)
  if(NOT LLVM_FOUND)
    gx_missing("LLVM (its CMake package)")
  endif()
  find_program(GX_LLD NAMES ld.lld ld.lld-19 HINTS "${LLVM_TOOLS_BINARY_DIR}")
  if(NOT GX_LLD)
    gx_missing("lld")
  endif()
endmacro()
