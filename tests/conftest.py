"""Shared data and helpers. Real data sets are looked for beside the repository and skipped where absent."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import ThreadpoolController

# The same examples in every run, no time limit on a busy machine, and no files left behind.
settings.register_profile(
    "squeak", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("squeak")

DATA = Path(os.environ.get("SQUEAK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def real_rows(name: str, n: int | None = None) -> np.ndarray:
    """Return the rows of a real data set, standardised, constant columns left out; skip where absent."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"data set {name} is not at hand (looked in SQUEAK_DATA and beside the repository)")
    with np.load(path) as file:
        X = file["X"][:n].astype(float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


LONG = (
    "adapters/test_optuna.py::test_a_saved_sampler_goes_on_with_its_study_in_the_same_bits",
    "adapters/test_optuna.py::test_conditional_parameters_failed_and_pruned_trials_do_no_harm",
    "adapters/test_optuna.py::test_constraints_are_kept_and_known_to_optuna",
    "adapters/test_optuna.py::test_failures_are_avoided[fails",
    "adapters/test_optuna.py::test_mixed_parameters_are_optimised_in_both_directions[maximize",
    "adapters/test_optuna.py::test_several_objectives_are_searched_for_the_volume_of_their_front",
    "adapters/test_optuna.py::test_what_follows_from_a_category_is_learned_and_searched_together",
    "adapters/test_river.py::test_rivers_own_checks_pass",
    "bandits/test_batch.py::test_by_default_batches_are_bounded_and_their_regret_is_that_of_single_pulls",
    "bandits/test_batch.py::test_regret_of_batches_is_that_of_the_exact_algorithm",
    "bandits/test_cli.py::test_a_column_is_replayed_and_a_run_goes_on_in_the_same_bits",
    "bandits/test_cli.py::test_a_command_gives_the_rewards_and_its_failure_is_one_line",
    "bandits/test_cli.py::test_a_process_that_is_killed_loses_no_reward",
    "bandits/test_cli.py::test_a_state_of_other_rows_is_refused",
    "bandits/test_cli.py::test_a_study_in_which_every_row_fails_says_so",
    "bandits/test_cli.py::test_rows_that_fail_are_left_out_and_told_of",
    "bandits/test_continuous.py::test_a_minimisation_that_failed_goes_on_from_its_checkpoint_in_the_same_bits",
    "bandits/test_continuous.py::test_a_saved_box_goes_on_in_the_same_bits",
    "bandits/test_continuous.py::test_a_saved_box_of_every_kind_goes_on_in_the_same_bits",
    "bandits/test_continuous.py::test_a_search_without_any_point_that_is_allowed_looks_for_one",
    "bandits/test_continuous.py::test_constraints_are_satisfied_and_the_best_point_is_one_that_does",
    "bandits/test_continuous.py::test_every_category_is_tried_and_the_best_one_is_found_in_noise",
    "bandits/test_continuous.py::test_few_sides_that_matter_are_found_among_many",
    "bandits/test_continuous.py::test_many_pending_points_may_crowd_at_an_optimum",
    "bandits/test_continuous.py::test_mixed_sides_are_minimised",
    "bandits/test_continuous.py::test_past_the_crossover_the_dictionary_is_limited_and_the_search_goes_on",
    "bandits/test_continuous.py::test_the_front_of_several_objectives",
    "bandits/test_continuous.py::test_the_same_seed_gives_the_same_points",
    "bandits/test_exact.py::test_intervals_cover_f_for_all_arms_and_steps",
    "bandits/test_failures.py::test_a_category_that_always_fails_is_not_tried_for_ever",
    "bandits/test_failures.py::test_a_minimisation_goes_on_past_failures_and_learns_to_avoid_them",
    "bandits/test_interface.py::test_scaling_loses_less_than_rewards_in_other_units",
    "bandits/test_interface.py::test_where_nothing_is_in_units_of_rewards_their_units_do_not_matter[DictionaryThompson-doubling",
    "bandits/test_interface.py::test_where_nothing_is_in_units_of_rewards_their_units_do_not_matter[RandomFeatureUCB",
    "bandits/test_interrupts.py::test_an_interrupt_at_any_line_leaves_a_whole_bandit",
    "bandits/test_sparse.py::test_inclusion_probabilities_are_oversampling_times_counts_times_variance",
    "core/test_accuracy.py::test_one_pass_brackets_the_accuracy",
    "core/test_accuracy.py::test_the_bracket_is_tight_on_real_rows",
    "core/test_databases.py::test_a_run_over_a_query_goes_on_from_its_checkpoint",
    "core/test_databases.py::test_postgresql_gives_the_same_rows_by_every_driver",
    "core/test_databases.py::test_the_server_keeps_what_is_not_yet_asked_for",
    "core/test_fuzz.py::test_small_files_that_ask_for_much_cost_little",
    "core/test_fuzz.py::test_the_largest_meta_costs_no_more_than_stated[digits",
    "core/test_fuzz.py::test_the_largest_meta_costs_no_more_than_stated[empty",
    "core/test_fuzz.py::test_the_largest_meta_costs_no_more_than_stated[small",
    "core/test_fuzz.py::test_the_net_catches_a_reader_that_believes_the_file",
    "core/test_fuzz.py::test_what_is_loaded_goes_on_as_the_object_that_was_saved",
    "core/test_remote.py::test_an_object_store_is_read_and_no_secret_is_stored",
    "core/test_round_trips.py::test_values_that_hypothesis_finds_are_the_same_through_some_formats",
    "core/test_screening.py::test_screening_that_leaves_out_stages_gives_up_no_row_that_would_enter[0.2",
    "core/test_sources.py::test_many_columns_can_be_saved",
    "core/test_sources.py::test_reading_a_file_holds_a_few_blocks_only",
    "core/test_sources.py::test_the_same_rows_give_the_same_dictionary_bit_for_bit",
    "core/test_sources.py::test_wide_rows_are_learned_from_within_bounds",
    "core/test_storage.py::test_a_model_of_a_hundred_thousand_named_columns_comes_back",
    "core/test_thinning.py::test_sampling_by_exact_scores_has_mean_weight_one_and_the_promised_size",
    "dpp/test_exactness.py::test_accepting_every_proposal_is_caught",
    "dpp/test_exactness.py::test_forgetting_the_factor_of_the_tilt_is_caught",
    "dpp/test_exactness.py::test_rounding_the_poisson_rate_is_caught",
    "dpp/test_exactness.py::test_samples_are_exact_whatever_the_dictionary",
    "dpp/test_exactness.py::test_samples_of_k_rows_are_exact",
    "dpp/test_rows.py::test_a_loaded_one_does_the_work_anew_with_the_sampler_it_was_given[weighted",
    "dpp/test_rows.py::test_scores_in_blocks_are_bounds_and_samples_stay_exact",
    "dpp/test_rows.py::test_the_command_skips_bad_rows_and_draws_many",
    "graphs/test_checkpoint.py::test_kills_within_writes_end_in_the_same_bits",
    "graphs/test_command.py::test_sparsify_writes_and_reports[parquet",
    "graphs/test_command.py::test_sparsify_writes_and_reports[txt",
    "graphs/test_distributed.py::test_a_killed_worker_does_not_change_the_bits",
    "graphs/test_distributed.py::test_a_merge_that_forgets_probabilities_is_caught",
    "graphs/test_distributed.py::test_weights_are_unbiased_through_two_levels",
    "graphs/test_resistance.py::test_a_wrong_local_part_is_caught",
    "graphs/test_resistance.py::test_projections_are_unbiased",
    "graphs/test_sparsify.py::test_nodes_that_begin_their_draws_at_one_place_are_caught",
    "graphs/test_sparsify.py::test_repairing_the_forest_after_the_draw_is_caught",
    "graphs/test_sparsify.py::test_storing_the_acceptance_ratio_is_caught",
    "graphs/test_sparsify.py::test_weights_are_unbiased_for_every_edge",
    "graphs/test_weights.py::test_huge_and_tiny_weights[1e+120",
    "graphs/test_weights.py::test_huge_and_tiny_weights[1e-120",
    "graphs/test_wide_weights.py::test_weights_of_any_size",
    "learners/test_auto.py::test_it_is_the_same_on_one_thread_and_on_two[None",
    "learners/test_auto.py::test_noise_among_classes_is_hardly_worse_than_their_frequencies",
    "learners/test_auto.py::test_noise_is_no_worse_than_the_mean",
    "learners/test_baselines.py::test_scikit_learns_contract[BasicFalkon",
    "learners/test_baselines.py::test_scikit_learns_contract[Nytro",
    "learners/test_blocks.py::test_the_blocks_put_together_are_the_answers_for_all_rows",
    "learners/test_estimators.py::test_scikit_learns_own_checks[AutoClassifier",
    "learners/test_estimators.py::test_scikit_learns_own_checks[AutoRegressor",
    "learners/test_estimators.py::test_scikit_learns_own_checks[KernelClassifier(kernel=RBF(length_scale=1.0),loss='log",
    "learners/test_estimators.py::test_scikit_learns_own_checks[KernelRidge(fit_intercept",
    "learners/test_estimators.py::test_scikit_learns_own_checks[KernelRidge(kernel=RBF(length_scale=1.0),max_iter",
    "learners/test_estimators.py::test_scikit_learns_own_checks[LocalExperts",
    "learners/test_estimators.py::test_scikit_learns_own_checks[Nystroem(form",
    "learners/test_expert_intervals.py::test_rows_that_memory_does_not_hold_and_those_of_workers_give_the_same",
    "learners/test_intervals.py::test_intervals_cover_as_often_as_they_say[0.5",
    "learners/test_intervals.py::test_intervals_cover_as_often_as_they_say[0.8",
    "learners/test_metric.py::test_a_full_map_is_learned_by_every_learner",
    "learners/test_metric.py::test_a_learned_width_is_an_ordinary_width",
    "learners/test_metric.py::test_a_target_that_is_noise_is_predicted_no_worse_than_by_its_mean",
    "learners/test_metric.py::test_a_width_is_looked_for_behind_a_map_that_is_given",
    "learners/test_metric.py::test_categories_of_a_column_share_a_width_and_count_together",
    "learners/test_metric.py::test_classes_weights_and_sources_learn_widths_too",
    "learners/test_metric.py::test_widths_by_column_find_what_matters[Laplacian",
    "learners/test_metric.py::test_widths_by_column_find_what_matters[Matern",
    "learners/test_metric.py::test_widths_by_column_find_what_matters[RBF",
    "learners/test_pca.py::test_scikit_learns_contract[KernelPCA(centre=False",
    "learners/test_places.py::test_workers_choose_the_same_automatic_model",
    "learners/test_places.py::test_workers_fit_the_same_local_experts",
    "learners/test_places.py::test_workers_give_the_same",
    "learners/test_random_features.py::test_regimes_agree_at_equal_step_times_steps",
    "learners/test_random_features.py::test_scikit_learns_contract[KernelGradientDescent",
    "learners/test_random_features.py::test_scikit_learns_contract[QuadratureFeatures",
    "learners/test_random_features.py::test_scikit_learns_contract[RandomFeatureClassifier(kernel",
    "learners/test_random_features.py::test_scikit_learns_contract[RandomFeatureRegressor(batch",
    "learners/test_regions.py::test_a_worker_that_is_killed_changes_no_bit",
    "learners/test_regions.py::test_few_rows_of_workers_are_learned_as_rows_in_memory[auto",
    "learners/test_regions.py::test_rows_of_this_program_are_sent_region_by_region[auto",
    "learners/test_regions.py::test_workers_learn_the_bits_of_threads_and_send_the_model_alone[auto classes",
    "learners/test_regions.py::test_workers_learn_the_bits_of_threads_and_send_the_model_alone[auto]",
    "learners/test_regions.py::test_workers_learn_the_bits_of_threads_and_send_the_model_alone[blend",
    "learners/test_regions.py::test_workers_learn_the_bits_of_threads_and_send_the_model_alone[logistic",
    "learners/test_splits.py::test_shares_are_those_of_a_slow_recursion_and_add_up_to_one[0.5",
    "learners/test_travelling.py::test_nothing_of_the_size_of_the_rows_comes_back[logistic",
    "learners/test_warning.py::test_widths_at_either_edge_are_told[False",
    "learners/test_warning.py::test_widths_at_either_edge_are_told[True",
    "learners/test_where_rows_lie.py::test_workers_give_the_bits_of_threads",
    "learners/test_worker_files.py::test_learners_need_not_see_the_files[falkon",
    "learners/test_worker_files.py::test_learners_need_not_see_the_files[k-means",
    "learners/test_worker_files.py::test_learners_need_not_see_the_files[logistic",
    "learners/test_worker_files.py::test_real_workers_read_files_that_are_theirs_and_write_predictions",
    "learners/test_worker_files.py::test_what_chooses_in_memory_gets_its_rows_from_the_workers",
    "online/test_checkpoint.py::test_a_stopped_pass_goes_on_in_the_same_bits[NOGD",
    "online/test_estimators.py::test_scikit_learn_takes_them_for_its_own[ConKonsClassifier",
    "online/test_estimators.py::test_scikit_learn_takes_them_for_its_own[ConKonsRegressor",
    "online/test_interrupts.py::test_an_interrupted_stream_ends_where_another_does",
    "online/test_relevance.py::test_a_steady_stream_is_not_begun_anew",
    "online/test_relevance.py::test_after_a_drift_it_is_learned_anew_which_columns_matter",
    "online/test_single_rows.py::test_single_rows_of_a_sparse_stream",
    "online/test_validation.py::test_learning_before_predicting_would_be_seen",
    "online/test_validation.py::test_the_command_learns_and_saves_and_goes_on",
    "online/test_validation.py::test_the_command_learns_labels",
    "report/test_browser.py::test_a_row_is_typed_into_the_page_of_a_server",
    "report/test_browser.py::test_hovering_shows_the_numbers_and_leaving_hides_them",
    "report/test_browser.py::test_labels_of_a_chart_do_not_overlap",
    "report/test_browser.py::test_no_panel_is_blank_and_nothing_sticks_out",
    "report/test_browser.py::test_pages_render_without_a_word_on_the_console[names",
    "report/test_browser.py::test_tabs_show_one_part_at_a_time_by_mouse_and_by_key",
    "report/test_browser.py::test_the_policy_lets_no_other_script_run",
    "report/test_write.py::test_every_kind_of_saved_object_has_a_page",
    "report/test_write.py::test_five_thousand_atoms_make_a_small_page_soon",
    "samplers/test_accuracy_law.py",
    "samplers/test_batch.py::test_a_limit_does_not_bias_the_weights",
    "samplers/test_batch.py::test_a_row_drawn_twice_that_counts_once_is_caught",
    "samplers/test_batch.py::test_accelerated_pivots_follow_the_sequential_law_exactly",
    "samplers/test_batch.py::test_bless_reaches_the_acceptance_numbers",
    "samplers/test_batch.py::test_bless_walks_its_path_to_the_size_asked_for",
    "samplers/test_batch.py::test_many_step_is_accurate_at_every_level_and_ends_at_the_ridge",
    "samplers/test_batch.py::test_the_acceptance_ratio_in_place_of_the_probability_is_caught",
    "samplers/test_batch.py::test_the_removing_oracle_ends_in_a_binomial_of_the_final_scores",
    "samplers/test_batch.py::test_weights_are_unbiased[BlessR",
    "samplers/test_batch.py::test_weights_are_unbiased[Bless]",
    "samplers/test_batch.py::test_weights_are_unbiased[InkEstimate",
    "samplers/test_batch.py::test_weights_are_unbiased[ManyStep",
    "samplers/test_batch.py::test_weights_are_unbiased[MultinomialNystrom",
    "samplers/test_batch.py::test_weights_are_unbiased[OnlineOracle",
    "samplers/test_batch.py::test_weights_are_unbiased[Recursive",
    "samplers/test_batch.py::test_weights_are_unbiased[TwoStep",
    "samplers/test_batch.py::test_weights_are_unbiased[Uniform, with",
    "samplers/test_checkpoint.py::test_a_full_disk_gives_a_clear_error_and_leaves_the_last_good_checkpoint",
    "samplers/test_checkpoint.py::test_sixty_kills_end_in_the_same_bits",
    "samplers/test_cluster.py::test_a_killed_worker_changes_no_bit",
    "samplers/test_cluster.py::test_a_part_that_fails_is_named_and_finished_ones_are_kept",
    "samplers/test_cluster.py::test_a_worker_killed_while_it_reads_changes_no_bit",
    "samplers/test_cluster.py::test_both_workers_killed_at_once_change_no_bit",
    "samplers/test_cluster.py::test_dask_collections_are_parts",
    "samplers/test_cluster.py::test_files_are_read_where_the_workers_are",
    "samplers/test_cluster.py::test_two_runs_of_the_same_seed_do_not_share_results",
    "samplers/test_disqueak.py::test_a_merge_that_draws_anew_is_caught",
    "samplers/test_disqueak.py::test_a_thousand_leaves_end",
    "samplers/test_disqueak.py::test_every_node_is_about_as_accurate_as_its_oversampling_says",
    "samplers/test_disqueak.py::test_the_same_bits_on_any_number_of_threads[balanced",
    "samplers/test_disqueak.py::test_the_same_bits_on_any_number_of_threads[by",
    "samplers/test_disqueak.py::test_the_same_bits_on_any_number_of_threads[three",
    "samplers/test_disqueak.py::test_weights_are_unbiased_over_trees",
    "samplers/test_fading.py::test_old_atoms_leave_and_the_sum_follows_the_stream",
    "samplers/test_fading.py::test_weights_are_unbiased_for_the_stream_as_it_fades[Kors",
    "samplers/test_fixed_size.py::test_forgetting_that_rows_were_thinned_to_the_size_is_caught",
    "samplers/test_fixed_size.py::test_thinning_to_a_size_is_unbiased_and_its_twin_is_caught[4",
    "samplers/test_foresight.py::test_taking_chances_at_the_ridge_ahead_for_those_of_the_draw_is_caught",
    "samplers/test_foresight.py::test_the_ways_of_many_atoms_draw_the_same[Kors",
    "samplers/test_foresight.py::test_weights_are_unbiased_where_few_atoms_are_asked[100",
    "samplers/test_no_workers.py::test_a_run_goes_on_when_a_worker_comes",
    "samplers/test_streams.py::test_effective_dimension_of_the_dictionary_is_close",
    "samplers/test_streams.py::test_online_dimension_obeys_its_chain_of_bounds",
    "samplers/test_streams.py::test_real_rows_are_summarised_accurately",
    "samplers/test_streams.py::test_rows_unlike_each_other_stop_with_the_cure",
    "samplers/test_streams.py::test_size_follows_oversampling_times_effective_dimension[3",
    "samplers/test_streams.py::test_the_accuracy_is_that_of_the_literal_per_point_algorithm",
    "samplers/test_streams.py::test_the_cut_of_the_stream_does_not_matter[{'copies': 10}",
    "samplers/test_streams.py::test_the_outlier_that_uniform_misses",
    "samplers/test_unbiased.py::test_redrawing_to_keep_the_limit_is_caught",
    "samplers/test_unbiased.py::test_screening_that_gives_up_too_many_rows_is_caught",
    "samplers/test_unbiased.py::test_storing_the_acceptance_ratio_is_caught",
    "samplers/test_unbiased.py::test_tails_are_those_of_a_martingale",
    "samplers/test_unbiased.py::test_weights_are_unbiased_for_every_row[copies",
    "samplers/test_unbiased.py::test_weights_are_unbiased_for_every_row[kors",
    "samplers/test_unbiased.py::test_weights_are_unbiased_for_every_row[max_atoms",
    "samplers/test_unbiased.py::test_weights_are_unbiased_for_every_row[one coin",
    "src/squeak/checks/__init__.py::squeak.checks.check_online",
    "src/squeak/checks/__init__.py::squeak.checks.check_sampler",
    "src/squeak/checks/__init__.py::squeak.checks.check_sparsifier",
    "src/squeak/learners/auto.py::squeak.learners.auto.AutoClassifier",
    "src/squeak/learners/blend.py::squeak.learners.blend.KernelBlend",
    "test_chaos.py::test_a_few_faults_change_no_bit",
    "test_chaos.py::test_a_pool_whose_processes_die_of_a_task_ends_with_a_clear_error",
    "test_chaos.py::test_a_worker_whose_memory_is_limited_tells_so",
    "test_cli.py::test_a_dead_scheduler_is_named",
    "test_cli.py::test_a_few_whole_numbers_are_classes_and_the_command_says_so",
    "test_cli.py::test_a_second_part_learned_like_the_first_can_be_merged",
    "test_cli.py::test_a_terminal_without_our_signs_is_no_error",
    "test_cli.py::test_an_interrupt_leaves_a_checkpoint_and_the_same_command_goes_on",
    "test_cli.py::test_classes_go_from_a_file_to_their_probabilities_in_a_file",
    "test_cli.py::test_compare_prints_a_table_and_draws_it",
    "test_cli.py::test_parts_learned_apart_are_merged_where_they_fit",
    "test_cli.py::test_predictions_of_rows_that_are_not_skipped_can_be_joined",
    "test_cli.py::test_show_prints_every_kind_of_file",
    "test_cli.py::test_version_help_and_completion",
    "test_cli.py::test_workers_learn_parts_and_give_the_bits_of_one_process",
    "test_cli_online.py::test_a_text_is_classes_and_scales_need_no_option",
    "test_cli_options.py::test_edges_are_chosen_among_columns",
    "test_cli_options.py::test_every_command_that_advises_a_delimiter_takes_it",
    "test_cli_options.py::test_more_rows_than_memory_should_hold_are_learned_in_passes",
    "test_cli_options.py::test_sorted_rows_are_read_in_another_order",
    "test_cli_plan.py::test_a_fit_that_chooses_everything_is_planned_too",
    "test_cli_plan.py::test_a_plan_tells_time_memory_and_passes[fit",
    "test_cli_plan.py::test_the_start_of_workers_is_measured",
    "test_digests.py::test_results_are_those_on_file[commands",
    "test_docs_examples.py::test_an_example_runs_and_draws_one_figure",
    "test_docs_pages.py::test_the_code_of_a_page_runs_from_top_to_bottom",
    "test_house.py::test_the_house_does_not_get_worse[repeated, bodies",
    "test_kills.py::test_a_command_that_only_reads_writes_nothing",
    "test_kills.py::test_a_killed_command_leaves_whole_files_and_the_next_run_no_litter",
    "test_kills.py::test_a_search_killed_in_its_ninth_reward_goes_on_in_the_same_units",
    "test_outputs.py::test_a_fit_on_a_dictionary_is_the_librarys",
    "test_outputs.py::test_a_full_disk_is_reported_with_the_files_name[arguments1",
    "test_outputs.py::test_a_full_disk_is_reported_with_the_files_name[arguments2",
    "test_outputs.py::test_a_learner_goes_on_in_its_own_file",
    "test_outputs.py::test_formulas_do_not_reach_a_csv_file_and_numbers_stay",
    "test_outputs.py::test_no_command_writes_over_what_it_reads",
    "test_outputs.py::test_overwrite_allows_it_and_the_input_was_read_to_its_end",
    "test_outputs.py::test_rewards_survive_a_state_that_cannot_be_written",
    "test_outputs.py::test_texts_from_files_cannot_rewrite_the_terminal[classes",
    "test_outputs.py::test_texts_from_files_cannot_rewrite_the_terminal[columns",
    "test_state_machines.py::test_failed_calls_leave_no_trace",
)
"""Tests that take more than their share, by how their names begin: `make test-slow` runs them, whole."""

SAMPLED = (
    "online/test_interrupts.py::test_an_interrupted_stream_ends_where_another_does[Kons-",
    "bandits/test_interrupts.py::test_an_interrupt_at_any_line_leaves_a_whole_bandit[BKB-",
    "learners/test_blocks.py::test_the_blocks_put_together_are_the_answers_for_all_rows[KernelRidge",
    "learners/test_blocks.py::test_the_blocks_put_together_are_the_answers_for_all_rows[KernelPCA",
    "core/test_round_trips.py::test_values_that_hypothesis_finds_are_the_same_through_some_formats[whole",
    "report/test_write.py::test_every_kind_of_saved_object_has_a_page[kernel-ridge",
    "report/test_write.py::test_every_kind_of_saved_object_has_a_page[dictionary",
    "test_state_machines.py::test_failed_calls_leave_no_trace[KernelRidge",
    "test_state_machines.py::test_failed_calls_leave_no_trace[Squeak",
    "test_state_machines.py::test_failed_calls_leave_no_trace[ConKons",
    "bandits/test_continuous.py::test_a_saved_box_goes_on_in_the_same_bits[real-exact",
    "adapters/test_river.py::test_rivers_own_checks_pass[classifier, check_l",
    "adapters/test_river.py::test_rivers_own_checks_pass[classifier, check_p",
    "adapters/test_river.py::test_rivers_own_checks_pass[regressor, check_l",
    "adapters/test_river.py::test_rivers_own_checks_pass[regressor, check_p",
    "core/test_sources.py::test_the_same_rows_give_the_same_dictionary_bit_for_bit[CSV-None",
    "core/test_thinning.py::test_sampling_by_exact_scores_has_mean_weight_one_and_the_promised_size[1-500",
    "dpp/test_exactness.py::test_samples_of_k_rows_are_exact[400-partial",
    "learners/test_estimators.py::test_scikit_learns_own_checks[AutoRegressor(max_atoms=20,random_state=0)-check_e",
    "learners/test_estimators.py::test_scikit_learns_own_checks[AutoRegressor(max_atoms=20,random_state=0)-check_f",
    "learners/test_estimators.py::test_scikit_learns_own_checks[LocalExperts(estimator=KernelRidge(kernel=RBF("
    "length_scale=1.0),max_atoms=40),leaf_rows=40,random_state=0,split_kernel=RBF(length_scale=1.0))-check_f",
    "test_cli_options.py::test_every_command_that_advises_a_delimiter_takes_it[optimize",
    "test_digests.py::test_results_are_those_on_file[commands: fit, predict, evaluate: classification",
    "test_digests.py::test_results_are_those_on_file[commands: sparsify",
    "test_docs_examples.py::test_an_example_runs_and_draws_one_figure[plot_regression]",
    "test_docs_pages.py::test_the_code_of_a_page_runs_from_top_to_bottom[README.md]",
    "test_docs_pages.py::test_the_code_of_a_page_runs_from_top_to_bottom[docs/graphs.md]",
    "test_outputs.py::test_no_command_writes_over_what_it_reads[merge]",
    "test_outputs.py::test_no_command_writes_over_what_it_reads[optimize]",
    "test_outputs.py::test_no_command_writes_over_what_it_reads[predict]",
    "test_outputs.py::test_no_command_writes_over_what_it_reads[sparsify]",
)
"""Those of the long ones that stay in `make test`."""


COLLECTED = pytest.StashKey[set[str]]()
"""Files and functions of all tests that this run has found, the slow ones among them: "core/test_x.py::test_y"."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COLLECTED] = {item.nodeid.removeprefix("tests/").partition("[")[0] for item in items}
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name.startswith(LONG) and not name.startswith(SAMPLED):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def two_blas_threads():
    """Let BLAS have two threads, as it has for users: `make test` gives it one, and nothing held would be seen."""
    controller = ThreadpoolController()
    let_any_thread_limit(controller)
    with controller.limit(limits=2, user_api="blas"):
        yield
        let_any_thread_limit(controller)


def let_any_thread_limit(controller: ThreadpoolController) -> None:
    """Make threadpoolctl 3.8 forget which thread was the first to set limits."""
    for library in controller.lib_controllers:
        getattr(library, "clear_controlling_thread", lambda force: None)(force=True)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261116)


@pytest.fixture
def clusters(rng: np.random.Generator) -> np.ndarray:
    """Return 300 rows in 3 columns: six clusters of unequal size and a few strays."""
    centres = 3 * rng.standard_normal((6, 3))
    sizes = [150, 80, 40, 20, 7, 1]
    parts = [c + 0.3 * rng.standard_normal((s, 3)) for c, s in zip(centres, sizes, strict=True)]
    strays = 5 * rng.standard_normal((2, 3))
    return rng.permutation(np.vstack([*parts, strays]))
