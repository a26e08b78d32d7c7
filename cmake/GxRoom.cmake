# gx_room(NAME [DEPENDS rooms...] [LINK libraries...] [LLVM components...]): the static library gx_NAME, alias graphex::NAME,
# of every .cc under graphex/NAME; header-only rooms become INTERFACE libraries and absent rooms are skipped.
# GX_ROOMS lists what was made; dependencies on absent rooms are dropped.
include_guard(GLOBAL)

# Warnings and code layout shared by all our targets; never exported.
add_library(gx_options INTERFACE)
target_compile_options(gx_options INTERFACE -Wall -Wextra -Wnon-virtual-dtor -Wimplicit-fallthrough -Wunused
  -ffunction-sections -fdata-sections $<$<BOOL:${GX_WERROR}>:-Werror>)
target_link_options(gx_options INTERFACE -fuse-ld=lld -Wl,--gc-sections -Wl,--as-needed)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Paths are hashed relative to the build folder, so that checkouts side by side share the cache.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(GX_CCACHE ccache)
  if(GX_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1;${GX_CCACHE}")
  endif()
endif()

set(GX_ROOMS "" CACHE INTERNAL "")

function(gx_room name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK;LLVM" ${ARGN})
  set(folder "${PROJECT_SOURCE_DIR}/graphex/${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cc")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${folder}/*.h")
  if(NOT sources AND NOT headers)
    return()
  endif()
  set(dependencies)
  foreach(room IN LISTS ARG_DEPENDS)
    if(TARGET gx_${room})
      list(APPEND dependencies gx_${room})
    endif()
  endforeach()
  if(NOT sources)
    add_library(gx_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(gx_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(gx_${name} PRIVATE $<BUILD_INTERFACE:gx_options>)
  endif()
  add_library(graphex::${name} ALIAS gx_${name})
  set_target_properties(gx_${name} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME graphex_${name})
  target_compile_features(gx_${name} ${scope} cxx_std_20)
  target_include_directories(gx_${name} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(gx_${name} ${scope} ${dependencies} ${ARG_LINK})
  if(sources AND ARG_LLVM)
    llvm_map_components_to_libnames(llvm_libraries ${ARG_LLVM})
    target_include_directories(gx_${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
    target_link_libraries(gx_${name} PRIVATE ${llvm_libraries})
  endif()
  set(GX_ROOMS ${GX_ROOMS} gx_${name} CACHE INTERNAL "")
endfunction()

# graphex::graphex: every room at once, for users who don't want to choose.
function(gx_everything)
  add_library(gx_graphex INTERFACE)
  add_library(graphex::graphex ALIAS gx_graphex)
  set_target_properties(gx_graphex PROPERTIES EXPORT_NAME graphex)
  target_link_libraries(gx_graphex INTERFACE ${GX_ROOMS})
  set(GX_ROOMS ${GX_ROOMS} gx_graphex CACHE INTERNAL "")
endfunction()

# The link line of a program that may use everything.
function(gx_link_all target)
  target_link_libraries(${target} PRIVATE ${GX_ROOMS} gx_options)
endfunction()

# tools/x_y.cc -> program x-y.
function(gx_tools)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cc")
  foreach(source IN LISTS sources)
    get_filename_component(stem "${source}" NAME_WE)
    string(REPLACE "_" "-" program "${stem}")
    add_executable(${program} "${source}")
    gx_link_all(${program})
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  endforeach()
endfunction()
