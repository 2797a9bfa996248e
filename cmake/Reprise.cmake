# Compiler settings, dependencies, and the two functions that declare every
# folder: reprise_library() and reprise_test().
include_guard(GLOBAL)

find_program(REPRISE_CCACHE ccache)
if(REPRISE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${REPRISE_CCACHE}")
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(GTest 1.12 REQUIRED)
# MLX is built without sanitizers, and the thread sanitizer has to know all
# code: a target that links mlx, or links one that does, is then left out.
option(REPRISE_WITHOUT_MLX "Leave out every target that needs MLX" OFF)
if(NOT REPRISE_WITHOUT_MLX)
  find_package(MLX 0.32.4 EXACT CONFIG QUIET PATHS "${REPRISE_DEPS}/mlx"
               NO_DEFAULT_PATH)
  if(NOT MLX_FOUND)
    message(FATAL_ERROR
      "MLX 0.32.4 is not in ${REPRISE_DEPS}/mlx. Run scripts/setup.sh first.")
  endif()
  # MLX's headers warn under -Wextra; they are not ours to fix.
  set_target_properties(mlx PROPERTIES
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${MLX_INCLUDE_DIRS}")
endif()
set_property(GLOBAL PROPERTY REPRISE_LEFT_OUT mlx)

add_library(reprise_flags INTERFACE)
target_compile_options(reprise_flags INTERFACE
  -Wall -Wextra -Wno-unused-parameter)
if(REPRISE_SANITIZE)
  target_compile_options(reprise_flags INTERFACE
    -fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(reprise_flags INTERFACE
    -fsanitize=${REPRISE_SANITIZE})
  if(REPRISE_SANITIZE_NOT)
    target_compile_options(reprise_flags INTERFACE
      -fno-sanitize=${REPRISE_SANITIZE_NOT})
  endif()
  if(REPRISE_SANITIZE STREQUAL "thread")
    # Boost's fences, which come with a lock each.
    target_compile_options(reprise_flags INTERFACE -Wno-tsan)
  endif()
endif()

# reprise_leave_out(RESULT NAME LINK ...): whether NAME is left out, because it
# needs MLX; then those that link it are, too.
function(reprise_leave_out result name)
  set(${result} OFF PARENT_SCOPE)
  if(NOT REPRISE_WITHOUT_MLX)
    return()
  endif()
  get_property(left_out GLOBAL PROPERTY REPRISE_LEFT_OUT)
  foreach(link IN LISTS ARGN)
    if(link IN_LIST left_out)
      set_property(GLOBAL APPEND PROPERTY REPRISE_LEFT_OUT ${name})
      set(${result} ON PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# For builds that nobody edits in between.
option(REPRISE_UNITY "Compile the sources of a library together" OFF)

# reprise_library(NAME SOURCES a.cpp ... LINKS base fmt::fmt ...)
# One folder, one target, its links written by hand: a folder that does not
# link MLX cannot include it. Links to sibling folders use their plain names.
# What is set on the target afterwards stands in if(TARGET NAME).
function(reprise_library name)
  cmake_parse_arguments(ARG "OBJECT" "" "SOURCES;LINKS" ${ARGN})
  reprise_leave_out(left_out ${name} ${ARG_LINKS})
  if(left_out)
    return()
  endif()
  if(ARG_OBJECT)
    add_library(${name} OBJECT ${ARG_SOURCES})
  elseif(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${CMAKE_SOURCE_DIR}/src")
    target_link_libraries(${name} INTERFACE reprise_flags ${ARG_LINKS})
    return()
  endif()
  # Headers of JSON, HTTP and flags cost more than what is behind them.
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${REPRISE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(${name} PUBLIC ${ARG_LINKS} PRIVATE reprise_flags)
  target_link_options(${name} PUBLIC $<TARGET_PROPERTY:reprise_flags,INTERFACE_LINK_OPTIONS>)
endfunction()

# reprise_program(NAME LINKS program ...): build/<preset>/NAME.
function(reprise_program name)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  reprise_leave_out(left_out ${name} ${ARG_LINKS})
  if(left_out)
    return()
  endif()
  add_executable(${name})
  target_link_libraries(${name} PRIVATE reprise_flags ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endfunction()

option(REPRISE_SOAK "The long forms of the tests: hours, not minutes" OFF)
if(REPRISE_SOAK)
  set(REPRISE_TEST_TIMEOUT 20000)
else()
  set(REPRISE_TEST_TIMEOUT 300)
endif()

# reprise_test(NAME [THREADS] SOURCES a_test.cpp ... LINKS folder ...)
# One GoogleTest program a folder. REPRISE_SOURCE_DIR is defined for data.
# THREADS: it has several; the others have nothing for the thread sanitizer.
function(reprise_test name)
  cmake_parse_arguments(ARG "THREADS" "TIMEOUT" "SOURCES;LINKS" ${ARGN})
  reprise_leave_out(left_out ${name} ${ARG_LINKS})
  if(left_out OR (REPRISE_SANITIZE STREQUAL "thread" AND NOT ARG_THREADS))
    return()
  endif()
  if(NOT ARG_TIMEOUT OR REPRISE_SOAK)
    set(ARG_TIMEOUT ${REPRISE_TEST_TIMEOUT})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE
    reprise_flags ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE
    REPRISE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    REPRISE_DEPS_DIR="${REPRISE_DEPS}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
